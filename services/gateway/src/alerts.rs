//! The firing alerts of a Prometheus.

use std::collections::BTreeMap;

use lacuna_model::ClusterId;
use lacuna_runtime::http::ask;
use serde::Deserialize;

/// The beginning of the names of Lacuna's alerts.
const OWN: &str = "Lacuna";

/// An alert that fires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Firing {
    /// Its name, by which `lacuna help` prints its page.
    pub(crate) name: String,
    /// Whether an operator is woken for it.
    pub(crate) wakes: bool,
    /// What it says.
    pub(crate) summary: String,
}

#[derive(Deserialize)]
struct Answer {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    alerts: Vec<Alert>,
}

#[derive(Deserialize)]
struct Alert {
    state: String,
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// The alerts of a cluster that fire, those that wake an operator first.
///
/// # Errors
/// Why Prometheus does not answer, in words.
pub(crate) async fn firing(address: &str, cluster: &ClusterId) -> Result<Vec<Firing>, String> {
    let failed = |reason: &dyn std::fmt::Display| format!("Prometheus at {address}: {reason}");
    match ask(address, "/api/v1/alerts").await {
        Ok((200, body)) => of_cluster(&body, cluster).map_err(|error| failed(&error)),
        Ok((status, _)) => Err(failed(&format_args!("status {status}"))),
        Err(error) => Err(failed(&error)),
    }
}

fn of_cluster(body: &str, cluster: &ClusterId) -> serde_json::Result<Vec<Firing>> {
    let answer: Answer = serde_json::from_str(body)?;
    let concerns = |alert: &Alert| {
        let label = |key: &str| alert.labels.get(key).map_or("", String::as_str);
        // Where no target is read, the cluster is not known.
        let here = [cluster.as_str(), "every cluster", ""].contains(&label("cluster"));
        alert.state == "firing" && here && label("alertname").starts_with(OWN)
    };
    let fires = answer.data.alerts.into_iter().filter(concerns);
    let mut firing: Vec<Firing> = fires
        .map(|mut alert| {
            let mut take = |from: &str| alert.labels.remove(from).unwrap_or_default();
            Firing {
                name: take("alertname"),
                wakes: take("severity") == "page",
                summary: alert.annotations.remove("summary").unwrap_or_default(),
            }
        })
        .collect();
    firing.sort_by(|a, b| (!a.wakes, &a.name).cmp(&(!b.wakes, &b.name)));
    Ok(firing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_of_this_cluster_that_fire_are_shown() {
        let alert = |name: &str, cluster: &str, state: &str, severity: &str| {
            serde_json::json!({
                "state": state,
                "labels": { "alertname": name, "cluster": cluster, "severity": severity },
                "annotations": { "summary": format!("{cluster}: {name}") },
            })
        };
        let body = serde_json::json!({ "status": "success", "data": { "alerts": [
            alert("LacunaMemory", "c", "firing", "ticket"),
            alert("LacunaBusDown", "c", "firing", "page"),
            alert("LacunaHarm", "c", "pending", "ticket"),
            alert("LacunaDenied", "other", "firing", "ticket"),
            alert("NodeDown", "c", "firing", "page"),
            alert("LacunaTargetsAbsent", "every cluster", "firing", "page"),
        ] } });
        let cluster = ClusterId::new("c").unwrap();
        let firing = of_cluster(&body.to_string(), &cluster).unwrap();
        let names: Vec<&str> = firing.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(
            names,
            ["LacunaBusDown", "LacunaTargetsAbsent", "LacunaMemory"]
        );
        assert_eq!(firing[0].summary, "c: LacunaBusDown");
        assert!(of_cluster("<html>", &cluster).is_err());
    }
}
