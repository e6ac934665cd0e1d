//! Texts of users in tables of `sacct`: no job is lost or invented by what a text holds, unless the
//! reading says so.
//!
//! `LACUNA_FUZZ_SEED` chooses other tables, `LACUNA_FUZZ_CASES` their number.

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
const PARTS: [&str; 22] = [
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
];

/// Tables with one text or two, the last of which a text may end. A `?` is a text.
const TABLES: [(&str, &str); 5] = [
    (
        "JobID|JobName|Submit|Start|End|State|NNodes|NodeList|Timelimit",
        "{id}|?|{from}|{from}|{until}|COMPLETED|2|{nodes}|01:00:00",
    ),
    (
        "JobID|User|Account|JobName|Start|End|State|NNodes|NodeList|",
        "{id}|ann|?|a b|{from}|{until}|TIMEOUT|2|{nodes}|",
    ),
    (
        "JobIDRaw|User|WorkDir|Start|End|State|Comment|NNodes|NodeList",
        "{id}|ann|?|{from}|{until}|CANCELLED by 5|?|2|{nodes}",
    ),
    (
        "JobID|SubmitLine|Start|End|State|NNodes|NodeList|Comment",
        "{id}|?|{from}|{until}|COMPLETED|2|{nodes}|done",
    ),
    (
        "JobID|Start|End|State|NNodes|NodeList|JobName|AllocTRES",
        "{id}|{from}|{until}|FAILED|2|{nodes}|?|billing=2,cpu=4",
    ),
];

/// A row, and what a reading must find in it.
fn row(form: &str, id: usize, texts: &mut dyn FnMut() -> String) -> (String, String) {
    let hour = id % 24;
    let (from, until) = (
        format!("2025-11-{:02}T{hour:02}:00:00", 1 + id % 28),
        format!("2025-11-{:02}T{hour:02}:30:00", 1 + id % 28),
    );
    let nodes = format!("n[{id}-{}]", id + 1);
    let mut line = String::new();
    let plain = form
        .replace("{id}", &id.to_string())
        .replace("{from}", &from)
        .replace("{until}", &until)
        .replace("{nodes}", &nodes);
    for (number, part) in plain.split('?').enumerate() {
        if number > 0 {
            line.push_str(&texts());
        }
        line.push_str(part);
    }
    (line, format!("{id} {from} {until} {nodes}"))
}

fn found(job: &JobRecord) -> String {
    let time = |time: Option<lacuna_model::Timestamp>| {
        let seconds = time.map_or(0, |time| time.unix_ms() / 1000);
        let time = jiff::Timestamp::from_second(seconds).unwrap();
        time.strftime("%Y-%m-%dT%H:%M:%S").to_string()
    };
    let (start, end) = (time(job.start), time(job.end));
    format!("{} {start} {end} {}", job.id, job.hosts)
}

/// Reads tables. Returns how many of them have exactly their jobs, and how many there are. With
/// `lines` every third text has a line that is a row by itself.
fn tables(lines: bool) -> (u64, u64) {
    let seed = number("LACUNA_FUZZ_SEED", 1);
    println!("LACUNA_FUZZ_SEED={seed}");
    let mut random = Random(seed);
    let (mut sure, cases) = (0, number("LACUNA_FUZZ_CASES", 600));
    for _ in 0..cases {
        let (header, form) = random.pick(&TABLES);
        let mut table = format!("{header}\n");
        let mut expected = Vec::new();
        for id in 100..105 {
            let mut texts = || -> String {
                let mut text = String::new();
                for _ in 0..random.below(6) {
                    text.push_str(random.pick(&PARTS));
                }
                if lines && random.below(3) == 0 {
                    let (other, _) = row(form, 900 + random.below(9), &mut || "z".to_owned());
                    text = format!("echo one\n{other}\n{text} two");
                }
                text
            };
            let (line, job) = row(form, id, &mut texts);
            table.push_str(&line);
            table.push('\n');
            expected.push(job);
        }
        let (records, damage) = jobs(text(&table, &Reading::default()).unwrap()).unwrap();
        let records: Vec<String> = records.iter().map(found).collect();
        let is_said = damage.lines > 0 || damage.doubtful > 0;
        assert!(records == expected || is_said, "{table:?}: {records:?}");
        assert_eq!(damage.first_doubtful.is_empty(), damage.doubtful == 0);
        sure += u64::from(records == expected);
    }
    (sure, cases)
}

#[test]
fn texts_of_users_lose_and_invent_no_job() {
    let (sure, cases) = tables(false);
    assert!(sure * 100 >= cases * 88, "{sure} of {cases}");
}

#[test]
fn lines_in_texts_that_look_like_rows_are_no_jobs() {
    let (sure, cases) = tables(true);
    assert!(sure * 100 >= cases * 68, "{sure} of {cases}");
}
