//! Missing lines of `slurm.conf`.

use std::fmt::Write as _;

use super::Facts;
use super::preemption::LONGEST_KILL_WAIT;
use super::record::seconds;
use crate::check::Filler;

/// Lines for `slurm.conf` and commands of `sacctmgr` with which pilots do no harm at this site.
#[must_use]
pub fn snippet(facts: &Facts, filler: &Filler) -> String {
    let name = if filler.partition.is_empty() {
        "filler"
    } else {
        &filler.partition
    };
    let account = if filler.account.is_empty() {
        "lacuna"
    } else {
        &filler.account
    };
    let qos = if filler.qos.is_empty() {
        "lacuna"
    } else {
        &filler.qos
    };
    let mut out = String::from("# slurm.conf\n");
    let by_qos = facts.setting("PreemptType").as_deref() == Some("preempt/qos");
    if by_qos {
        out.push_str("# PreemptType=preempt/qos stays as it is.\n");
    } else {
        out.push_str("PreemptType=preempt/partition_prio\n");
    }
    // The mode of the cluster must allow preemption; the partitions of batch jobs forbid it.
    out.push_str("PreemptMode=CANCEL\nPreemptExemptTime=00:00:00\n");
    match facts.setting("KillWait") {
        Some(found) if seconds(&found).is_some_and(|wait| wait <= LONGEST_KILL_WAIT) => {
            let _ = writeln!(out, "# KillWait={found} stays as it is.");
        }
        _ => {
            let _ = writeln!(out, "KillWait={LONGEST_KILL_WAIT}");
        }
    }
    let mut nodes = "ALL";
    let mut lowest = u32::MAX;
    for partition in facts.partitions.iter().filter(|p| p.name != name) {
        let tier = partition
            .get("PriorityTier")
            .and_then(|t| t.parse().ok())
            .unwrap_or(1);
        lowest = lowest.min(tier);
        let raised = if tier < 2 { 10 } else { tier };
        let _ = writeln!(
            out,
            "# in the line of {}: PriorityTier={raised} PreemptMode=OFF",
            partition.name
        );
    }
    let tier = if lowest == u32::MAX || lowest < 2 {
        1
    } else {
        lowest - 1
    };
    if let Some(partition) = facts.partition(name) {
        nodes = partition.get("Nodes").unwrap_or("ALL");
    }
    let accounts = format!(" AllowAccounts={account}");
    let _ = writeln!(
        out,
        "PartitionName={name} Nodes={nodes} Default=NO PriorityTier={tier} PreemptMode=CANCEL \
         GraceTime=0 OverSubscribe=EXCLUSIVE DefaultTime=01:00:00 MaxTime=24:00:00{accounts} \
         State=UP"
    );
    let _ = write!(
        out,
        "\n# once, as an administrator, where accounting is kept\n\
         PILOT_USER=lacuna  # the account of lacuna-control, which submits pilots\n\
         sacctmgr -i add account {account} Description=\"pilots of Lacuna\" Fairshare=1\n\
         sacctmgr -i add qos {qos}\n\
         sacctmgr -i modify qos {qos} set Flags=NoReserve UsageFactor=0 GraceTime=0 \
         PreemptExemptTime=0 PreemptMode=cancel Priority=0\n\
         sacctmgr -i add user \"$PILOT_USER\" Account={account} QOS={qos} DefaultQOS={qos}\n"
    );
    if by_qos {
        let others = facts.qos.iter().flatten().filter(|q| q.name != qos);
        for other in others {
            let _ = writeln!(
                out,
                "sacctmgr -i modify qos {} set Preempt+={qos}",
                other.name
            );
        }
    }
    out
}
