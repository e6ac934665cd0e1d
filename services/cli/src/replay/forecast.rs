//! Arguments of `lacuna replay` for policies that forecast.

use clap::Args;

use lacuna_forecast::Prior;
use lacuna_model::ForesightSettings;
use lacuna_sim::Forecasting;

use super::model::ModelArg;
use super::order;
use crate::error::Result;

/// Settings of forecasting policies.
#[derive(Debug, Args)]
#[command(next_help_heading = "Forecasts")]
pub(super) struct ForecastArgs {
    /// The order in which the scheduler takes nodes: learnt, names, none, or a file with one name a
    /// line, first taken first
    #[arg(long, value_name = "ORDER", default_value = "learnt")]
    order: String,
    #[command(flatten)]
    pub(super) model: ModelArg,
    /// Number of futures drawn for each decision
    #[arg(long, value_name = "N", default_value_t = ForesightSettings::default().scenarios, value_parser = clap::value_parser!(u32).range(1..=4096))]
    scenarios: u32,
    /// The longest horizon of a forecasting policy, seconds: no further than half of the holes last,
    /// and than four times the cost of a change or, if longer, `auto` finds that trainers keep their
    /// nodes
    #[arg(long, value_name = "SECONDS", default_value_t = ForesightSettings::default().horizon.as_secs_f64())]
    forecast_horizon: f64,
    /// A change must be worth this many times its cost
    #[arg(long, value_name = "FACTOR", default_value_t = ForesightSettings::default().hysteresis)]
    hysteresis: f64,
    /// Do not let a trainer that lost nodes take other nodes at no further charge
    #[arg(long)]
    no_repool: bool,
    /// Give nodes out even if they do not pay
    #[arg(long)]
    no_refusal: bool,
    /// Forecast holes one by one, not jointly
    #[arg(long)]
    no_groups: bool,
    /// Ignore planned starts, of the simulated scheduler or of --planned
    #[arg(long)]
    no_hints: bool,
    /// Learn nothing from the part of the log before --from
    #[arg(long)]
    no_past: bool,
    /// Expect a machine like one of these before anything is learnt: names of the table in
    /// libs/forecast/src/prior.rs, or none
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = of_prior, hide = true)]
    prior: Vec<String>,
}

/// A machine of the prior by its name, or none.
fn of_prior(text: &str) -> std::result::Result<String, String> {
    let machines = Prior::machines().into_iter();
    let mut names: Vec<_> = machines.map(|machine| machine.name).collect();
    names.push("none".into());
    match names.iter().any(|name| name == text) {
        true => Ok(text.to_owned()),
        false => Err(format!("expected {}", names.join(", "))),
    }
}

impl ForecastArgs {
    /// The settings of the replay. An uplink carries `uplink` crossing trainers.
    ///
    /// # Errors
    /// The list of nodes or the model cannot be read.
    pub(super) fn settings(&self, uplink: Option<u32>) -> Result<Forecasting> {
        let mut settings = Forecasting {
            order: order(&self.order)?,
            scenarios: self.scenarios,
            together: !self.no_groups,
            model: self.model.read()?,
            hints: !self.no_hints,
            past: !self.no_past,
            ..Forecasting::default()
        };
        if !self.prior.is_empty() {
            let mut machines = Prior::machines();
            machines.retain(|machine| self.prior.iter().any(|name| *name == machine.name));
            settings.prior = Prior::of(&machines);
        }
        settings.joint.horizon_s = self.forecast_horizon;
        settings.joint.hysteresis = self.hysteresis;
        settings.joint.repool = !self.no_repool;
        settings.joint.refuse = !self.no_refusal;
        settings.joint.uplink = uplink;
        Ok(settings)
    }
}
