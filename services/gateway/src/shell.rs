//! The shell: takes states, and sends snapshots to browsers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use futures::FutureExt as _;
use lacuna_model::Span;
use lacuna_runtime::{Misconfigured, Running, ServiceError, Start, http};
use lacuna_wire::{address, token};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::MissedTickBehavior;

use crate::alerts::firing;
use crate::bus_state::BusState;
use crate::change::Before;
use crate::metrics::Metrics;
use crate::sections::Context;
use crate::snapshot::{names, snapshot};
use crate::token::Token;
use crate::view::View;
use crate::web::{Shown, Site, cookie, router};

/// Least time between two snapshots.
const SNAPSHOT: Duration = Duration::from_millis(500);
/// A snapshot is made at the latest after this many intervals, since ages grow without messages.
const STILL: u32 = 10;
/// Time between two questions to nats-server's monitor and to Prometheus.
const WATCH: Duration = Duration::from_secs(15);
/// Time between two removals of data that the page no longer shows.
const TIDY: Duration = Duration::from_secs(60);
/// Most agents' statuses that are handled at once. A large cluster sends thousands.
const BATCH: usize = 512;
/// Most connections in addition to those of browsers that follow.
const OTHERS: usize = 256;
/// Time for browsers to close their connections.
const LEAVE: Duration = Duration::from_secs(1);

/// Arguments of the gateway.
#[derive(Debug, Clone, Default, Args)]
pub struct GatewayArgs {
    /// Address of the page, instead of `gateway.page`
    #[arg(long, value_name = "ADDR")]
    pub page: Option<SocketAddr>,
    /// File with the page's token, instead of `gateway.token_file`
    #[arg(long, value_name = "FILE", env = "LACUNA_PAGE_TOKEN_FILE")]
    pub page_token_file: Option<PathBuf>,
}

/// Runs until shutdown.
///
/// # Errors
/// If the page cannot be served, or the bus is closed for good.
pub fn run(ctx: Context, args: GatewayArgs) -> Running {
    Box::pin(async move {
        let page = args.page.unwrap_or(ctx.config.gateway.page);
        let listener = http::bind(page).await.map_err(|error| {
            Misconfigured(format!(
                "gateway.page: {}",
                error.to_string().replace("--listen ADDR", "gateway.page")
            ))
        })?;
        serve(ctx, args, listener).await
    })
}

/// Like [`run`], with an address that is already bound.
///
/// # Errors
/// Those of [`run`].
pub fn run_at(listener: TcpListener, ctx: Context, args: GatewayArgs) -> Running {
    Box::pin(serve(ctx, args, listener))
}

async fn serve(ctx: Context, args: GatewayArgs, listener: TcpListener) -> Result<(), ServiceError> {
    let settings = &ctx.config.gateway;
    let misconfigured = |error: &dyn std::fmt::Display| Misconfigured(error.to_string());
    let file = args
        .page_token_file
        .as_ref()
        .or(settings.token_file.as_ref());
    let token = file.map(|file| Token::read(file)).transpose();
    let token = token.map_err(|error| misconfigured(&error))?;
    let address = listener.local_addr()?;
    if token.is_none() && !address.ip().is_loopback() {
        tracing::warn!(%address, "the page is open to all: gateway.token_file is not set");
    }
    let view = Arc::new(Mutex::new(View::new(settings.history)));
    let metrics = Metrics::new(&ctx.registry)?;
    let (show, shown) = watch::channel(Shown::default());
    let site = Site {
        view: Arc::clone(&view),
        shown,
        token,
        cookie: cookie(&ctx.cluster).into(),
        behind_tls: settings.behind_tls,
        hosts: settings.hosts.clone().into(),
        places: Arc::new(Semaphore::new(settings.viewers)),
        past: Arc::default(),
        metrics: metrics.clone(),
    };
    let connections = settings.viewers.saturating_add(OTHERS);
    let pages = http::serve_pages(listener, router(site), connections, ctx.shutdown.clone());
    let mut server = tokio::spawn(pages);
    tracing::info!(page = %format!("http://{address}/"), "the operator's page");
    let ended = tokio::select! {
        ended = listen(&ctx, &view, show) => ended,
        () = watch(&ctx, &metrics, &view) => Ok(()),
        served = &mut server => return Err(match served {
            // The server was stopped, and ended before the loop.
            Ok(()) if ctx.shutdown.is_cancelled() => return Ok(()),
            Ok(()) => "the page's server stopped".into(),
            Err(error) => error.into(),
        }),
    };
    // The sender of snapshots is dropped, so the streams to browsers end.
    let _ = tokio::time::timeout(LEAVE, server).await;
    ended
}

/// Asks nats-server's monitor and Prometheus again and again, where they are named. Never ends.
async fn watch(ctx: &Context, metrics: &Metrics, view: &Mutex<View>) {
    let settings = &ctx.config.gateway;
    let lock = || view.lock().unwrap_or_else(PoisonError::into_inner);
    let mut before = None;
    if settings.bus_monitor.is_some() && ctx.bus.proven() {
        metrics.bus.show_limits(&ctx.cluster);
    }
    loop {
        if let Some(address) = &settings.bus_monitor {
            let state = BusState::read(address, settings.bus_store.as_deref()).await;
            metrics
                .bus
                .show(address, state.as_ref().ok(), before.as_ref());
            if let Ok(state) = &state {
                before = Some(state.clone());
            }
            lock().watched.take_bus(state);
        }
        if let Some(address) = &settings.prometheus {
            let alerts = firing(address, &ctx.cluster).await;
            lock().watched.alerts = Some(alerts);
        }
        tokio::time::sleep(WATCH).await;
    }
}

/// Follows the bus, and makes snapshots of its states.
async fn listen(
    ctx: &Context,
    view: &Mutex<View>,
    show: watch::Sender<Shown>,
) -> Result<(), ServiceError> {
    let alive = ctx.health.check("loop", Some(Span::from_secs(30)));
    let (bus, cluster) = (&ctx.bus, &ctx.cluster);
    let mut ticks = bus
        .follow_direct(&address::clock(cluster), Start::Last)
        .await?;
    let mut pools = bus
        .follow_direct(&address::pool(cluster), Start::Last)
        .await?;
    let mut trainers = bus
        .follow_direct(&address::trainers(cluster), Start::Last)
        .await?;
    let mut totals = bus
        .follow_direct(&address::totals(cluster), Start::Last)
        .await?;
    let mut plans = bus
        .follow_direct(&address::plan(cluster), Start::Last)
        .await?;
    let mut progress = bus
        .follow_direct(&address::progress_all(cluster), Start::Last)
        .await?;
    let mut events = bus
        .follow_direct(&address::event(cluster), Start::Newest(60))
        .await?;
    let mut controls = bus
        .follow_direct(&address::controls(cluster), Start::Last)
        .await?;
    let mut topologies = bus
        .follow_direct(&address::topology(cluster), Start::Last)
        .await?;
    let mut leaders = bus
        .follow_direct(&address::leaders(cluster), Start::Last)
        .await?;
    let mut agents = bus.subscribe(&address::agents(cluster)).await?;
    let mut snapshots = tokio::time::interval(SNAPSHOT);
    snapshots.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut tidying = tokio::time::interval(TIDY);
    tidying.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let link = bus.link();
    let (mut still, mut last) = (0_u32, Before::default());
    let lock = || view.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        alive.ok();
        tokio::select! {
            () = ctx.shutdown.cancelled() => return Ok(()),
            tick = ticks.next() => ctx.clock.update(&tick?.message),
            state = pools.next() => lock().take_pool(state?.message),
            state = trainers.next() => lock().take_trainers(state?.message),
            state = totals.next() => lock().take_totals(state?.message),
            state = plans.next() => lock().take_plan(state?.message),
            report = progress.next() => lock().take_progress(report?.message),
            state = topologies.next() => lock().take_topology(state?.message.topology),
            wanted = controls.next() => lock().take_controls(wanted?.message),
            leader = leaders.next() => {
                let leader = leader?;
                if let Some(service) = token::last_name(&leader.subject) {
                    lock().take_leader(service, leader.message);
                }
            }
            event = events.next() => lock().take_event(&event?.message),
            status = agents.next() => {
                let mut waiting = vec![status?.message];
                while waiting.len() < BATCH
                    && let Some(status) = agents.next().now_or_never()
                {
                    waiting.push(status?.message);
                }
                let (mut view, now) = (lock(), ctx.clock.now());
                for status in waiting {
                    view.take_agent(status, now);
                }
            }
            _ = tidying.tick() => lock().tidy(),
            _ = snapshots.tick() => {
                let mut view = lock();
                view.connected(link.now().up);
                let is_news = view.settle();
                still = if is_news { 0 } else { still + 1 };
                if is_news || still.is_multiple_of(STILL) {
                    let before = show.borrow().clone();
                    show.send_replace(shown(ctx, &view, &before, &mut last)?);
                }
            }
        }
    }
}

/// The newest snapshot. The names are those of the one before if no node has joined or left.
fn shown(
    ctx: &Context,
    view: &View,
    before: &Shown,
    last: &mut Before,
) -> Result<Shown, serde_json::Error> {
    let version = view.history.nodes().0;
    let list = if version == before.version && !before.names.is_empty() {
        Arc::clone(&before.names)
    } else {
        serde_json::to_string(&names(view))?.into()
    };
    let (cluster, clock) = (ctx.cluster.as_str(), &ctx.clock);
    let now = snapshot(view, cluster, clock.now(), clock.rate());
    let (whole, change) = last.next(view);
    Ok(Shown {
        number: before.number + 1,
        version,
        names: list,
        whole: serde_json::to_string(&whole)?.into(),
        change: serde_json::to_string(&change)?.into(),
        now: serde_json::to_string(&now)?.into(),
    })
}
