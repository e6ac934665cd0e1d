//! Texts of users in logs: no job is lost or invented by what a text holds, unless the reading says so.
//!
//! `LACUNA_FUZZ_SEED` chooses other tables, `LACUNA_FUZZ_CASES` their number.

use lacuna_records::hosts;
use lacuna_trace::{JobRecord, Reading};

use crate::logs::{jobs, text};

/// Random numbers, the same for the same seed (Vigna, SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        *of.get(self.below(of.len())).unwrap()
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |wanted| wanted.parse().unwrap())
}

/// Parts of texts.
const PARTS: [&str; 27] = [
    "a",
    "fit",
    "sbatch a.sh",
    "|",
    "||",
    "x|y",
    "\n",
    "\r\n",
    "\r",
    "\u{2028}",
    "\u{85}",
    "\u{b}",
    "\"",
    "'",
    "\\",
    "12|x",
    "7.batch|y",
    "COMPLETED|2|n1",
    "2025-11-28T09:00:00",
    "\n\n",
    "ä\u{0}",
    "JobID|JobName",
    " ",
    " end=5 ",
    "\" start=7 ",
    "\n; x\n# y",
    " JobState=x NodeCnt=7 ",
];

/// Forms of logs: first lines, the lines of a job, and how a writer escapes a text. A `?` is a text.
struct Form {
    head: &'static str,
    job: &'static str,
    escape: fn(String) -> String,
}

const fn form(head: &'static str, job: &'static str) -> Form {
    let escape = |text| text;
    Form { head, job, escape }
}

/// Tables with one text or two, the last of which a text may end.
const SACCT: [Form; 5] = [
    form(
        "JobID|JobName|Submit|Start|End|State|NNodes|NodeList|Timelimit\n",
        "{id}|?|{from}|{from}|{until}|COMPLETED|2|{nodes}|01:00:00\n",
    ),
    form(
        "JobID|User|Account|JobName|Start|End|State|NNodes|NodeList|\n",
        "{id}|ann|?|a b|{from}|{until}|TIMEOUT|2|{nodes}|\n",
    ),
    form(
        "JobIDRaw|User|WorkDir|Start|End|State|Comment|NNodes|NodeList\n",
        "{id}|ann|?|{from}|{until}|CANCELLED by 5|?|2|{nodes}\n",
    ),
    form(
        "JobID|SubmitLine|Start|End|State|NNodes|NodeList|Comment\n",
        "{id}|?|{from}|{until}|COMPLETED|2|{nodes}|done\n",
    ),
    form(
        "JobID|Start|End|State|NNodes|NodeList|JobName|AllocTRES\n",
        "{id}|{from}|{until}|FAILED|2|{nodes}|?|billing=2,cpu=4\n",
    ),
];

/// Accounting of PBS, with a text in quotes and one without.
const PBS: [Form; 2] = [
    form(
        "",
        "{pbs from};S;{id};user=ann account=\"?\" queue=q ctime={unix from} start={unix from} \
         exec_host={host}/0*4+{other}/0*4 Resource_List.walltime=01:00:00\n\
         {pbs until};E;{id};user=ann account=\"?\" queue=q ctime={unix from} start={unix from} \
         exec_host={host}/0*4+{other}/0*4 Resource_List.walltime=01:00:00 session=7 \
         end={unix until} Exit_status=0 resources_used.ncpus=8\n",
    ),
    form(
        "",
        "{pbs until};E;{id};user=ann jobname=? queue=q ctime={unix from} start={unix from} \
         exec_vnode=({host}[0]:ncpus=2+{host}[1]:ncpus=2)+({other}:ncpus=4) session=7 \
         end={unix until} Exit_status=0 resources_used.ncpus=8\n",
    ),
];

/// LSF doubles the quotes of a text.
const LSF: [Form; 2] = [
    Form {
        head: "",
        job: "\"JOB_FINISH\" \"9.12\" {unix until} {id} 1501 33554434 4 {unix from} 0 0 {unix from} \
              \"ann\" \"normal\" \"\" \"?\" \"\" \"login\" \"/home/ann\" \"\" \"\" \"\" \"1.7\" 0 2 \
              \"4*{host}\" \"4*{other}\" 64 100.0 \"?\" \"?\" 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 \
              \"\" \"default\" 0 4 \"\" \"\" 0 2048 0 \"\" \"\" \"\" \"\" 0 \"\" 0 \"\" -1 \"\" \"\" \
              \"\" \"\" -1 \"\" \"\" 5136 \"\" 0 \"\" \"?\" 0 0 60 0 1024\n",
        escape: doubled,
    },
    Form {
        head: "",
        job: "\"JOB_NEW\" \"10.1\" {unix from} {id} 1501 33570818 4 {unix from} 0 0 -65535 0 0 \
              \"ann\" -1 -1 -1 -1 -1 -1 -1 -1 -1 60 -1 \"\" 1.00 2 \"normal\" \"?\" \"login\" \"/\" \
              \"\" \"\" \"\" \"\" \"/h\" \"1.1\" 0 \"\" \"\" \"?\" \"?\" 0 \"\" \"default\"\n\
              \"JOB_MODIFY2\" \"10.1\" {unix from} \"{id}\" \"?\" 1\n\
              \"JOB_START\" \"10.1\" {unix from} {id} 4 0 0 100.0 3 \"{host}\" \"{other}\" \
              \"{host}\" \"?\" \"\" 0 \"\" 0 \"\" 2147483647\n\
              \"JOB_STATUS\" \"10.1\" {unix until} {id} 64 0 0 0.1 {unix until} 0 0 0 0 0\n",
        escape: doubled,
    },
];

fn doubled(text: String) -> String {
    text.replace('"', "\"\"")
}

const JOBCOMP: [Form; 1] = [form(
    "",
    "JobId={id} UserId=ann(1500) GroupId=users(1500) Name=? JobState=COMPLETED Partition=batch \
     TimeLimit=90 StartTime={from} EndTime={until} NodeList={nodes} NodeCnt=2 ProcCnt=32 WorkDir=? \
     Tres=cpu=32,node=2 SubmitTime={from} ExitCode=0:0 \n",
)];

/// In the Standard Workload Format only comments are texts.
const SWF: [Form; 1] = [form(
    "; UnixStartTime: 0\n",
    "; Note: ?\n{id} {unix from} 0 1800 2 -1 -1 2 3600 -1 1 1 -1 -1 1 -1 -1 -1\n",
)];

/// The lines of a job, and what a reading must find in them.
fn row(form: &Form, id: usize, texts: &mut dyn FnMut() -> String) -> (String, String) {
    let (day, hour) = (1 + id % 28, id % 24);
    let (from, until) = (
        format!("2025-11-{day:02}T{hour:02}:00:00"),
        format!("2025-11-{day:02}T{hour:02}:30:00"),
    );
    let unix = 1_761_955_200 + (id % 28) * 86_400 + hour * 3600;
    let (host, other) = (format!("n{id}"), format!("n{}", id + 1));
    let mut line = String::new();
    let plain = form
        .job
        .replace("{id}", &id.to_string())
        .replace("{from}", &from)
        .replace("{until}", &until)
        .replace("{unix from}", &unix.to_string())
        .replace("{unix until}", &(unix + 1800).to_string())
        .replace("{pbs from}", &format!("11/{day:02}/2025 {hour:02}:00:00"))
        .replace("{pbs until}", &format!("11/{day:02}/2025 {hour:02}:30:00"))
        .replace("{host}", &host)
        .replace("{other}", &other)
        .replace("{nodes}", &format!("n[{id}-{}]", id + 1));
    for (number, part) in plain.split('?').enumerate() {
        if number > 0 {
            line.push_str(&(form.escape)(texts()));
        }
        line.push_str(part);
    }
    let nodes = match form.job.contains("{host}") || form.job.contains("{nodes}") {
        true => format!("{host},{other}"),
        false => "2 nodes".to_owned(),
    };
    (line, format!("{id} {from} {until} {nodes}"))
}

fn found(job: &JobRecord) -> String {
    let time = |time: Option<lacuna_model::Timestamp>| {
        let seconds = time.map_or(0, |time| time.unix_ms() / 1000);
        let time = jiff::Timestamp::from_second(seconds).unwrap();
        time.strftime("%Y-%m-%dT%H:%M:%S").to_string()
    };
    let (start, end) = (time(job.start), time(job.end));
    let mut nodes = Vec::new();
    hosts::expand(&job.hosts, &mut |host| nodes.push(host.to_owned())).unwrap();
    let nodes = match nodes.is_empty() {
        true => format!("{} nodes", job.nodes),
        false => nodes.join(","),
    };
    format!("{} {start} {end} {nodes}", job.id)
}

/// Reads logs of these forms. Returns how many of them have exactly their jobs, and how many there
/// are. With `lines` every third text has a line that is a job by itself.
fn logs(name: &str, forms: &[Form], lines: bool) -> (u64, u64) {
    let seed = number("LACUNA_FUZZ_SEED", 1);
    println!("{name}: LACUNA_FUZZ_SEED={seed}");
    let mut random = Random(seed);
    let (mut sure, cases) = (0, number("LACUNA_FUZZ_CASES", 600));
    for _ in 0..cases {
        let form = forms.get(random.below(forms.len())).unwrap();
        let mut log = form.head.to_owned();
        let mut expected = Vec::new();
        for id in 100..105 {
            let mut texts = || -> String {
                let mut text = String::new();
                for _ in 0..random.below(6) {
                    text.push_str(random.pick(&PARTS));
                }
                if lines && random.below(3) == 0 {
                    let (other, _) = row(form, 900 + random.below(9), &mut || "z".to_owned());
                    text = format!("echo one\n{other}{text} two");
                }
                text
            };
            let (line, job) = row(form, id, &mut texts);
            log.push_str(&line);
            expected.push(job);
        }
        // The first lines may look like another format, which is said too.
        let Ok(log_of_jobs) = text(&log, &Reading::default()) else {
            continue;
        };
        let (records, damage) = jobs(log_of_jobs).unwrap();
        let records: Vec<String> = records.iter().map(found).collect();
        let is_said = damage.lines > 0 || damage.doubtful > 0;
        assert!(records == expected || is_said, "{log:?}: {records:?}");
        assert_eq!(damage.first_doubtful.is_empty(), damage.doubtful == 0);
        sure += u64::from(records == expected);
    }
    println!("{name}: {sure} of {cases} exact");
    (sure, cases)
}

#[test]
fn texts_of_users_lose_and_invent_no_job() {
    for (name, forms, least) in [
        ("sacct", &SACCT[..], 88),
        ("pbs", &PBS, 45),
        ("lsf", &LSF, 100),
        ("jobcomp", &JOBCOMP, 95),
        ("swf", &SWF, 70),
    ] {
        let (sure, cases) = logs(name, forms, false);
        assert!(sure * 100 >= cases * least, "{name}: {sure} of {cases}");
    }
}

#[test]
fn lines_in_texts_that_look_like_jobs_are_none() {
    for (name, forms, least) in [
        ("sacct", &SACCT[..], 68),
        ("pbs", &PBS, 0),
        ("lsf", &LSF, 100),
        ("jobcomp", &JOBCOMP, 0),
    ] {
        let (sure, cases) = logs(name, forms, true);
        assert!(sure * 100 >= cases * least, "{name}: {sure} of {cases}");
    }
}
