//! What every mover lets its user say about the plan, and what it tells of it afterwards.

use std::time::Duration;

use bytepath::routes::ROUTES;
use bytepath::{Job, Knobs, Moved, Plan};
use clap::Args;

use crate::say;

/// Options of every mover.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Plan")]
pub(crate) struct PlanOptions {
    /// Move by this route alone, or fail
    #[arg(long, value_name = "NAME", value_parser = crate::values::one_of(ROUTES.iter().map(|route| (route.name(), route.summary()))))]
    pub(crate) route: Option<String>,
    /// Say on standard error which route was chosen and why, what was expected, and what came
    #[arg(long)]
    pub(crate) explain_plan: bool,
    /// Leave pipes at either end at the size they have, instead of making them larger
    #[arg(long)]
    pub(crate) no_enlarge: bool,
}

impl PlanOptions {
    /// The plan for a job: the route named, or the best.
    ///
    /// # Errors
    /// There is none, with the reason.
    pub(crate) fn plan(&self, job: &Job<'_>, knobs: Knobs) -> anyhow::Result<Plan> {
        let plan = match &self.route {
            Some(name) => Plan::only(name, job, knobs)?,
            None => Plan::best(job, knobs)?,
        };
        Ok(if self.no_enlarge { plan.leave_pipes() } else { plan })
    }

    /// Tells of a plan and what came of it, if asked to.
    pub(crate) fn explain(&self, plan: &Plan, moved: &Moved, took: Duration) {
        if !self.explain_plan {
            return;
        }
        for line in plan.to_string().lines() {
            say(format_args!("{line}"));
        }
        for gave in &moved.declined {
            say(format_args!("{} gave up at byte {}: {}", gave.route, gave.offset, gave.why));
        }
        let gib = moved.bytes as f64 / f64::from(1 << 30);
        let rate = gib / took.as_secs_f64().max(1e-9);
        say(format_args!("came: {} bytes by {}, {rate:.2} GiB/s", moved.bytes, moved.route));
    }
}
