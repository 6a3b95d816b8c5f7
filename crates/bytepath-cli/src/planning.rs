//! How every mover comes to its plan, what its user may say about it, and what is told of it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytepath::endpoint::Kind;
use bytepath::machine::Machine;
use bytepath::plan::{Basis, PlanError};
use bytepath::profile::ProfileError;
use bytepath::routes::ROUTES;
use bytepath::{Cancel, Job, Knobs, Meter, Moved, Plan, Profile, Transfer, TransferError};
use clap::Args;

use crate::say;

/// Below this many bytes a job is over before a profile is read.
const PROFILE_FROM_BYTES: u64 = 1 << 20;

/// Options of every mover.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Plan")]
pub(crate) struct PlanOptions {
    /// Move by this route alone, or fail
    #[arg(long, value_name = "NAME", value_parser = crate::values::one_of(ROUTES.iter().map(|route| (route.name(), route.summary()))))]
    pub(crate) route: Option<String>,
    /// The profile of this machine, as bytepath tune made it; its usual place unless given
    #[arg(long, value_name = "FILE", conflicts_with = "route")]
    pub(crate) profile: Option<PathBuf>,
    /// Say on standard error which route was chosen and why, what was expected, and what came
    #[arg(long)]
    pub(crate) explain_plan: bool,
}

/// Why there is no movement, or why it ended short.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CarryError {
    /// No plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The profile that was named cannot be used.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The movement ended short.
    #[error(transparent)]
    Transfer(#[from] TransferError),
}

/// What is needed to carry a job out.
pub(crate) struct Carrying<'a> {
    /// The job.
    pub(crate) job: Job<'a>,
    /// What the mover insists on.
    pub(crate) knobs: Knobs,
    /// Whom to tell.
    pub(crate) meter: &'a Meter,
    /// Who may stop it.
    pub(crate) cancel: Option<&'a Cancel>,
}

impl PlanOptions {
    /// The plan for a job by rules, or the route named.
    ///
    /// # Errors
    /// There is none, with the reason.
    pub(crate) fn plan(&self, job: &Job<'_>, knobs: Knobs) -> Result<Plan, PlanError> {
        match &self.route {
            Some(name) => Plan::only(name, job, knobs),
            None => Plan::best(job, knobs),
        }
    }

    /// Carries a job out by the best plan for it, and explains that if asked to.
    ///
    /// A job that is known to be small goes by rules. Where nobody knows the size, the first MiB
    /// does, and only what is left then is worth a look at the profile.
    ///
    /// # Errors
    /// See [`CarryError`].
    pub(crate) fn carry(&self, carrying: &Carrying<'_>) -> Result<Moved, CarryError> {
        let began = Instant::now();
        let size = size(&carrying.job);
        let by_rules = self.route.is_some() || size.is_some_and(|size| size < PROFILE_FROM_BYTES);
        if by_rules {
            let plan = self.plan(&carrying.job, carrying.knobs.clone())?;
            let moved = run(carrying, &carrying.job, &plan)?;
            self.explain(&plan, &Told { why: None, moved: &moved, took: began.elapsed() });
            return Ok(moved);
        }
        let first = match size {
            Some(_) => None,
            None => Some(self.first_bytes(carrying)?),
        };
        let first_bytes = first.as_ref().map_or(0, |first| first.bytes);
        if let Some(first) = first.filter(|first| first.bytes < PROFILE_FROM_BYTES) {
            let plan = self.plan(&carrying.job, carrying.knobs.clone())?;
            self.explain(&plan, &Told { why: None, moved: &first, took: began.elapsed() });
            return Ok(first);
        }
        let left = carrying.job.limit.map(|limit| limit - first_bytes);
        let rest = Job { limit: left, ..carrying.job };
        let (plan, why) = self.plan_by_profile(&rest, carrying.knobs.clone())?;
        let moved = run(carrying, &rest, &plan).map_err(|error| beyond(error, first_bytes))?;
        let moved = Moved { bytes: moved.bytes + first_bytes, ..moved };
        self.explain(&plan, &Told { why, moved: &moved, took: began.elapsed() });
        Ok(moved)
    }

    fn first_bytes(&self, carrying: &Carrying<'_>) -> Result<Moved, CarryError> {
        let limit = carrying.job.limit.map_or(PROFILE_FROM_BYTES, |l| l.min(PROFILE_FROM_BYTES));
        let first = carrying.job.limit(limit);
        let plan = Plan::best(&first, carrying.knobs.clone())?;
        Ok(run(carrying, &first, &plan)?)
    }

    /// The plan, and why the profile had no say in it.
    fn plan_by_profile(
        &self,
        job: &Job<'_>,
        knobs: Knobs,
    ) -> Result<(Plan, Option<String>), CarryError> {
        let found = match &self.profile {
            // One that was named has to be good.
            Some(path) => {
                let profile = Profile::read(path)?;
                profile.check_machine(Machine::this())?;
                Ok(profile)
            }
            None => usual_profile(),
        };
        Ok(match found {
            Ok(profile) => {
                let plan = Plan::by_profile(job, knobs, &profile)?;
                let unmeasured = || "the profile has no figures for these ends".to_owned();
                let why = (plan.basis() == Basis::Rules).then(unmeasured);
                (plan, why)
            }
            Err(why) => (Plan::best(job, knobs)?, Some(why)),
        })
    }

    fn explain(&self, plan: &Plan, told: &Told<'_>) {
        if !self.explain_plan {
            return;
        }
        let Told { why, moved, took } = told;
        match plan.basis() {
            Basis::Asked => say(format_args!("plan: the route that was asked for")),
            Basis::Profile => say(format_args!("plan: by what was measured on this machine")),
            Basis::Rules => say(format_args!(
                "plan: by rules{}",
                why.as_ref().map_or_else(
                    || "; the job is too small for more".to_owned(),
                    |why| format!("; {why}")
                )
            )),
        }
        for line in plan.to_string().lines() {
            say(format_args!("  {line}"));
        }
        for gave in &moved.declined {
            say(format_args!("{} gave up at byte {}: {}", gave.route, gave.offset, gave.why));
        }
        let rate = moved.bytes as f64 / f64::from(1 << 30) / took.as_secs_f64().max(1e-9);
        say(format_args!("came: {} bytes by {}, {rate:.2} GiB/s", moved.bytes, moved.route));
    }
}

/// What there is to tell after a movement.
struct Told<'a> {
    why: Option<String>,
    moved: &'a Moved,
    took: Duration,
}

fn run(carrying: &Carrying<'_>, job: &Job<'_>, plan: &Plan) -> Result<Moved, TransferError> {
    let transfer = Transfer::new(job, plan).meter(carrying.meter);
    match carrying.cancel {
        Some(cancel) => transfer.cancel(cancel).run(),
        None => transfer.run(),
    }
}

/// How many bytes the job has, if that is known before it is done. Files of /proc claim 0.
fn size(job: &Job<'_>) -> Option<u64> {
    let file = job.source.kind() == Kind::File && job.source.bytes() > 0;
    let bytes = file.then(|| job.source.bytes());
    bytes.into_iter().chain(job.limit.filter(|_| file)).min()
}

/// The profile in its usual place, or why it cannot be used.
fn usual_profile() -> Result<Profile, String> {
    let Some(path) = Profile::default_path() else {
        return Err("no HOME and no XDG_STATE_HOME, so no profile".into());
    };
    let profile = Profile::read(&path).map_err(|error| error.to_string())?;
    profile.check_machine(Machine::this()).map_err(|error| error.to_string())?;
    Ok(profile)
}

/// The same error, told by its place in the whole job.
fn beyond(error: TransferError, first_bytes: u64) -> TransferError {
    match error {
        TransferError::Failed(failed) => TransferError::Failed(bytepath::Failed {
            offset: failed.offset + first_bytes,
            ..failed
        }),
        TransferError::Declined { offset, declined } => {
            TransferError::Declined { offset: offset + first_bytes, declined }
        }
        TransferError::Cancelled { offset, stranded } => {
            TransferError::Cancelled { offset: offset + first_bytes, stranded }
        }
        other => other,
    }
}
