//! Arguments of `lacuna replay` for policies that forecast.

use clap::Args;

use lacuna_model::ForesightSettings;
use lacuna_sim::Forecasting;

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
    /// Number of futures drawn for each decision
    #[arg(long, value_name = "N", default_value_t = ForesightSettings::default().scenarios, value_parser = clap::value_parser!(u32).range(1..=4096))]
    scenarios: u32,
    /// The longest horizon of a forecasting policy, seconds: no further than four times the cost of
    /// a change, and than half of the holes last
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
}

impl ForecastArgs {
    /// The settings of the replay. An uplink carries `uplink` crossing trainers.
    ///
    /// # Errors
    /// The list of nodes cannot be read.
    pub(super) fn settings(&self, uplink: Option<u32>) -> Result<Forecasting> {
        let mut settings = Forecasting {
            order: order(&self.order)?,
            scenarios: self.scenarios,
            together: !self.no_groups,
            hints: !self.no_hints,
            ..Forecasting::default()
        };
        settings.joint.horizon_s = self.forecast_horizon;
        settings.joint.hysteresis = self.hysteresis;
        settings.joint.repool = !self.no_repool;
        settings.joint.refuse = !self.no_refusal;
        settings.joint.uplink = uplink;
        Ok(settings)
    }
}
