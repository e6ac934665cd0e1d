//! The pages behind error codes: `lacuna help L0007`.

/// One code.
pub(crate) struct Page {
    /// `L` and four digits; never used again for something else.
    pub(crate) code: &'static str,
    /// The fact, in a line.
    pub(crate) title: &'static str,
    /// What it means and what to do.
    pub(crate) text: &'static str,
}

/// All pages, by code.
pub(crate) const PAGES: &[Page] = &[
    Page {
        code: "L0001",
        title: "no nats-server answers",
        text: "\
Every part of Lacuna speaks over NATS. The address comes from --nats, else from
LACUNA_NATS, else from the file up.json that a running `lacuna up` keeps in its
data directory (--data-dir, LACUNA_DATA_DIR), else nats://127.0.0.1:4222.

What to do:
  - start everything on this machine:   lacuna up
  - or say where NATS is:               lacuna --nats nats://host:4222 trainers
  - if `lacuna up` runs as another user or with another --data-dir, give that one.",
    },
    Page {
        code: "L0002",
        title: "a service does not answer",
        text: "\
NATS is there, but the service that should answer is not: usually lacuna-control,
which answers for trainers and nodes. Each service serves /healthz; under
`lacuna up` its log is logs/<service>.log in the data directory, and it is
started again when it dies. Also check --cluster: services of another cluster
listen on other subjects.",
    },
    Page {
        code: "L0003",
        title: "the configuration is wrong",
        text: "\
A key is unknown, a value is out of its range or of the wrong type. The message
names the file, the line and the key. `lacuna config example` prints a complete
file with every key and its default; `lacuna config check FILE` checks one
without starting anything. Services end with exit code 64 for the same reason.",
    },
    Page {
        code: "L0004",
        title: "a port is in use",
        text: "\
Another program listens where Lacuna wanted to. `lacuna up` takes free ports by
itself unless --nats-port, or an address in [http] of the configuration that is
not the default, asks for a certain one. Port 0 means any free port.",
    },
    Page {
        code: "L0005",
        title: "a program is missing, or too old",
        text: "\
`lacuna up`, `lacuna demo` and `lacuna-lab` start other programs. The services
(lacuna-ingest, lacuna-forecast, lacuna-planner, lacuna-control, lacuna-agent,
lacuna-gateway) and `lacuna` itself are looked for beside the program that you
called and then in PATH; nats-server in LACUNA_NATS_SERVER, else in .cache/bin of
the working tree, beside `lacuna`, and in PATH. The first that is new enough is
taken: 2.12.3 or newer is needed, and Debian's own package is too old.
`make setup` fetches a current one.",
    },
    Page {
        code: "L0006",
        title: "the data directory is in use",
        text: "\
A running `lacuna up` keeps its data in this directory. Two would write over each
other. Stop the other one (its process id is in up.json), or give another
--data-dir.",
    },
    Page {
        code: "L0007",
        title: "a trainer was refused",
        text: "\
What a trainer needs: a name of 1 to 64 of A-Z a-z 0-9 _ - . that no trainer of
the cluster has had; 1 <= min_nodes <= max_nodes <= 262144; a scaling curve with
strictly increasing node counts that reaches max_nodes, with positive rates that
never fall below the first; rescale costs and work that are finite and not negative.
`lacuna submit --test-only FILE` checks without queueing. Nothing of a refused
submission is queued.",
    },
    Page {
        code: "L0008",
        title: "the trainer's name is taken",
        text: "\
Names are unique in a cluster for ever, because work is counted by name. Give the
trainer another one (a date or a number at its end is usual).",
    },
    Page {
        code: "L0009",
        title: "no such trainer",
        text: "\
`lacuna trainers --all` lists every trainer, finished ones too. Trainers belong to
one cluster: check --cluster.",
    },
    Page {
        code: "L0010",
        title: "no such node",
        text: "\
Lacuna knows the nodes that the main scheduler's events have named: `lacuna nodes
--all` lists them. Names are those of the main scheduler, in full. Of a range, as in
a[01-16], each node must be known, and a pattern, as in a*, must match one. `lacuna
drain --unnamed` takes nodes that no event has named yet.",
    },
    Page {
        code: "L0011",
        title: "a file cannot be read or written",
        text: "\
The message names the file and what the system said. A hole list or a list of
trainers that is malformed is named with line, column, what was expected and what
stood there. For a report: the directory must exist and the disk must have room;
reports are written beside their place and renamed, so that a full disk leaves no
half of one.",
    },
    Page {
        code: "L0012",
        title: "an event was refused",
        text: "\
`lacuna events publish` checks an event before it leaves. Version 1 knows:
  node.idle NODE              node.busy NODE
  node.down NODE [--reason R] node.wanted NODE --deadline TIME
  job.planned JOB --nodes N,.. --start TIME
  reservation NAME --nodes N,.. --start TIME --end TIME
Nodes are names, or ranges as in n[01-16]. Times are ISO-8601 (2026-01-31T12:00:00Z)
or Unix seconds. No event may be dated more than a day ahead of the clock of the
machine that publishes it. What other programs publish on lacuna.v1.<cluster>.in.>
and ingest cannot read goes to lacuna.v1.<cluster>.dead.ingest and is counted there.",
    },
    Page {
        code: "L0013",
        title: "a message has an unknown version",
        text: "\
The other side is of another version of Lacuna. A service puts what it cannot read
on lacuna.v1.<cluster>.dead.<service>, counts it and goes on. Bring all services to
one version; newer fields alone do no harm, newer versions of a message do.",
    },
    Page {
        code: "L0014",
        title: "a service keeps dying",
        text: "\
`lacuna up` starts a child again when it dies, after a pause that grows, and gives
up when it has died too often in a short time, unless the disk of the data directory
is full: then it goes on trying until there is room. The reason is at the end of its
log, logs/<service>.log in the data directory.",
    },
    Page {
        code: "L0015",
        title: "there is no plan or pool yet",
        text: "\
The planner publishes its first plan when it has a pool (from forecast, which needs
events or a snapshot from ingest) and trainers (from control). `lacuna nodes` shows
what control knows; look at the logs of the stage that is missing.",
    },
    Page {
        code: "L0016",
        title: "the trainer is over, or runs nowhere",
        text: "\
A trainer that is done, cancelled or failed cannot be cancelled any more. `lacuna
trainers --all` shows how it ended, `lacuna explain NAME` why.

`lacuna logs` asks the agent of the node where the trainer's rank 0 runs; for a
trainer that holds no node, up to 16 agents that may still have its output. If
none has, it lies on the nodes where the trainer ran, in the folder of the agents
(agent.work_dir): <work_dir>/<trainer>/<node>/output.log. A trainer that never had
a node has no output; `lacuna explain NAME` says why it waits.",
    },
    Page {
        code: "L0017",
        title: "the recording is not at hand",
        text: "\
`lacuna-lab reproduce bftrainer` needs the recording that the paper was made with, in
the folder summit-2021-02 of the folder that --data or LACUNA_DATA names:
  holes.csv.gz                    the holes, node,idle_from,idle_until,censored
  nodes.txt                       the nodes in their original order
  hpo-1000.jsonl.gz               a thousand equal trainers
  mixed-1001-throughput.jsonl.gz  seven networks in turn, by samples/s
  mixed-1001-speedup.jsonl.gz     the same, by speed-up over one node
They are made from what the authors of arXiv 2106.12091 published.",
    },
    Page {
        code: "L0018",
        title: "the format of a log cannot be told",
        text: "\
The format is told by the first lines. If these say too little, name it:
  --format swf          Standard Workload Format
  --format sacct        sacct --parsable2; without a header line also --columns
  --format jobcomp      Slurm's jobcomp/filetxt
  --format slurmctld    slurmctld.log
  --format sinfo        snapshots of sinfo in blocks
  --format pbs          accounting records of PBS, OpenPBS, Torque
  --format lsb.acct     LSF's accounting; --format lsb.events its events
  --format holes        node,idle_from,idle_until,censored
  --format node-states  time,node,state
Files may be plain, gzip or zstd.",
    },
    Page {
        code: "L0019",
        title: "the size of the machine is not known, or too small",
        text: "\
The log has batch jobs but not the nodes that they ran on, so a simulated batch
scheduler places them, and must know how many nodes there are. Some logs say it
in their header (MaxNodes of the Standard Workload Format); else say it with
--machine-nodes N. If the log counts processors, say also --procs-per-node N.

A size for which some jobs are too large is refused: nodes that these used would
seem idle. --leave-out-too-large goes on without them.",
    },
    Page {
        code: "L0020",
        title: "only operators may do this",
        text: "\
Controls (pause, resume, drain, undrain, limits) and `lacuna pilots` are for those
whom control.access.operators names in the configuration of lacuna-control, and so
are priorities of trainers above control.access.max_priority. Who asks is proven by
the key with which they connect to NATS. The refusal stands in the audit log:
lacuna audit --refused.

What to do:
  - connect with an operator's key, or
  - have the name added to control.access.operators and control started again.",
    },
    Page {
        code: "L0021",
        title: "the trainer belongs to another user",
        text: "\
A trainer is ended, and its output read, by whoever submitted it, by the owner that
its specification names, and by operators. Who submits owns: only operators submit
trainers that name another owner. `lacuna trainers` shows to whom each belongs.
Trainers of before there were users belong to operators.",
    },
    Page {
        code: "L0022",
        title: "a quota is exhausted",
        text: "\
control.access.quota, or control.access.users.NAME, bounds how many trainers of a
user may be waiting or active, and how many nodes they may use at a time. Nothing
of a refused submission is queued. Wait until trainers are done, cancel some, or
ask the operator for more. A quota of nodes refuses only a trainer that needs more
nodes at least than it allows; others wait, or train on fewer.",
    },
    Page {
        code: "L0023",
        title: "a control makes no sense",
        text: "\
The message says what is wrong: an end in the past, a time zone that the machine of
control does not know, a pattern of nodes with an open bracket, a window that does
not exist. Nothing of the request was done. `lacuna limits` shows what holds.",
    },
    Page {
        code: "L0024",
        title: "a control could not be kept",
        text: "\
A change of the controls holds once nats-server has confirmed that it keeps it, so
that a restart brings no surprise. It has not confirmed: its disk may be full, or
it was restarting. Nothing was done. Should the server have kept the change all
the same, control takes it up within ten seconds; `lacuna limits` tells. If nodes
must be given back now and NATS cannot be mended, stop lacuna-control: agents give
every node back after agent.dead_man.",
    },
    Page {
        code: "L0025",
        title: "no room for more trainers",
        text: "\
Control keeps a record of every trainer in a bucket of 256 MB. Submissions may fill
four fifths of it; the rest is for what becomes of trainers. One user may fill half
of what the others leave. Nothing of the request was done. Ended trainers move to an
archive after control.keep_finished, and from three fifths on already a minute or two
after their end, so those that fill it now are not over. Wait until some are, or
cancel some; a quota (control.access.quota) bounds users further. If it stays full while
trainers end, the log of lacuna-control says what keeps them from the archive.
lacuna_control_records_share tells how much is taken.",
    },
    Page {
        code: "L0026",
        title: "asked too fast",
        text: "\
Control answers each user so many requests a second (control.access.rate, 20 by
default, 200 at once after a pause). Nothing was done; the message says when to try
again. Commands of `lacuna` wait and try again by themselves. A file of many trainers
is one request: submit them together.",
    },
    Page {
        code: "L0027",
        title: "too many trainers in one request",
        text: "\
A submission carries 1,000 trainers at most. Nothing was done. Submit them in parts.",
    },
    Page {
        code: "L0040",
        title: "no such keys",
        text: "\
The folder has no keys of `lacuna keys`, or not of this cluster or user. Make them with
`lacuna keys init DIR --cluster ID`; `lacuna keys list DIR` shows who has one. If
users.toml in it is broken, bring it back from a copy: without it `lacuna keys` does
not know whose keys nats-server is to accept.",
    },
    Page {
        code: "L0041",
        title: "that user cannot be made so",
        text: "\
A user has one key and one role in a cluster. Another role, or the same name for
somebody else, needs another name, or --force, which makes a new key in place of the
old one. Only agents are of a node (--node).",
    },
    Page {
        code: "L0042",
        title: "no certificate",
        text: "\
A --host is no host name or address, or the authority's key (ca/ca-key.pem in the
folder of keys) is not there: only it can sign a new certificate that the identities
already handed out trust. Bring it back from where it is kept, or make everything anew
with `lacuna keys init DIR --force` and hand out all identities again.",
    },
    Page {
        code: "L0043",
        title: "the key has no permission",
        text: "\
nats-server knows who asks and does not let them do this. Each key is for one role:
researchers ask in their own name and see the state, operators also change controls and
pilots and publish events, observers only look, events is for external schedulers, and
each service does its own work alone. Take an identity of a role that may
(--identity FILE, LACUNA_IDENTITY); deploy/security.md has the table. Each refusal
stands in the log of nats-server.",
    },
    Page {
        code: "L0044",
        title: "who asks, or who answers, cannot be proven",
        text: "\
Either nats-server does not accept the key: none was given, it is of other keys, or it
was revoked. Or nats-server cannot prove who it is: its certificate is of another
authority, has run out, or does not hold for the host name. Or the identity file can be
read by others, or is none.

What to do:
  - give the identity that `lacuna keys` has made: --identity FILE or LACUNA_IDENTITY
  - after keys have changed: nats-server --signal reload
  - a certificate that has run out: lacuna keys renew-tls DIR, then reload
  - a file that others can read: chmod 600 FILE, and a new key if others use the machine",
    },
];

/// The page of a code, in any case of letters.
#[must_use]
pub(crate) fn page(code: &str) -> Option<&'static Page> {
    PAGES.iter().find(|p| p.code.eq_ignore_ascii_case(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_sorted_and_well_formed() {
        assert!(PAGES.windows(2).all(|w| w[0].code < w[1].code));
        for page in PAGES {
            assert!(page.code.len() == 5 && page.code.starts_with('L'));
            assert!(page.text.lines().all(|l| l.len() <= 88), "{}", page.code);
        }
        assert_eq!(page("l0007").unwrap().code, "L0007");
    }

    /// Every code that the sources of the commands name must have a page.
    #[test]
    fn every_code_used_has_a_page() {
        let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut stack = vec![own.join("src"), own.join("../lab/src")];
        let mut seen = 0;
        while let Some(dir) = stack.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.ends_with("codes.rs") {
                    continue;
                }
                if path.is_dir() {
                    stack.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap();
                for (at, _) in text.match_indices("\"L0") {
                    let code = &text[at + 1..at + 6];
                    assert!(
                        page(code).is_some(),
                        "{code} in {} has no page",
                        path.display()
                    );
                    seen += 1;
                }
            }
        }
        assert!(seen > 20);
    }
}
