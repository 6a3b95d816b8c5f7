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
    /// Leave pipes at either end at the size they have, instead of making them larger
    #[arg(long)]
    pub(crate) no_enlarge: bool,
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
    /// The plan that a job begins with: the route named, or by the profile where the job is known
    /// to be worth it, or by rules.
    ///
    /// # Errors
    /// There is none, or the profile that was named cannot be used.
    pub(crate) fn begin(&self, job: &Job<'_>, knobs: Knobs) -> Result<Planning<'_>, CarryError> {
        let plan = match &self.route {
            Some(name) => Plan::only(name, job, knobs.clone())?,
            None => Plan::best(job, knobs.clone())?,
        };
        let plan = self.sparing(plan);
        let size = size(job);
        let settled = self.route.is_some() || size.is_some_and(|size| size < PROFILE_FROM_BYTES);
        let mut planning = Planning { options: self, knobs, plan, settled, why: None };
        if size.is_some() {
            planning.settle(job)?;
        }
        Ok(planning)
    }

    /// The plan, with pipes left as they are if they are to be.
    fn sparing(&self, plan: Plan) -> Plan {
        if self.no_enlarge { plan.leave_pipes() } else { plan }
    }

    /// Carries a job out by the best plan for it, and explains that if asked to.
    ///
    /// # Errors
    /// See [`CarryError`].
    pub(crate) fn carry(&self, carrying: &Carrying<'_>) -> Result<Moved, CarryError> {
        let began = Instant::now();
        let mut planning = self.begin(&carrying.job, carrying.knobs.clone())?;
        let mut total = Moved { bytes: 0, route: "", declined: Vec::new() };
        loop {
            let left = carrying.job.limit.map_or(u64::MAX, |limit| limit - total.bytes);
            let most = planning.stretch_bytes().min(left);
            let job = match most {
                u64::MAX => carrying.job,
                most => carrying.job.limit(most),
            };
            let moved = run(carrying, &job, planning.plan());
            let moved = moved.map_err(|error| beyond(error, total.bytes))?;
            total.bytes += moved.bytes;
            total.route = moved.route;
            total.declined.extend(moved.declined);
            if moved.bytes < most || most == left {
                break;
            }
            planning.settle(&carrying.job)?;
        }
        planning.explain(&total, began.elapsed());
        Ok(total)
    }
}

/// The plan of a movement as it goes on.
///
/// A job that is known to be small goes by rules. Where nobody knows the size, the first MiB does,
/// and only what is left then is worth a look at the profile.
pub(crate) struct Planning<'o> {
    options: &'o PlanOptions,
    knobs: Knobs,
    plan: Plan,
    /// Whether the plan stays as it is.
    settled: bool,
    /// Why the profile has no say.
    why: Option<String>,
}

impl Planning<'_> {
    /// The plan now.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// For how many bytes it is meant; then [`Planning::settle`] is to be called.
    pub(crate) fn stretch_bytes(&self) -> u64 {
        if self.settled { u64::MAX } else { PROFILE_FROM_BYTES }
    }

    /// Settles on the plan for what is left of a job that turned out not to be small.
    ///
    /// # Errors
    /// The profile that was named cannot be used.
    pub(crate) fn settle(&mut self, job: &Job<'_>) -> Result<(), CarryError> {
        if self.settled {
            return Ok(());
        }
        self.settled = true;
        let found = match &self.options.profile {
            // One that was named has to be good.
            Some(path) => {
                let profile = Profile::read(path)?;
                profile.check_machine(Machine::this())?;
                Ok(profile)
            }
            None => usual_profile(),
        };
        match found {
            Ok(profile) => {
                let plan = Plan::by_profile(job, self.knobs.clone(), &profile)?;
                self.plan = self.options.sparing(plan);
                if self.plan.basis() == Basis::Rules {
                    self.why = Some("the profile has no figures for these ends".into());
                }
            }
            Err(why) => self.why = Some(why),
        }
        Ok(())
    }

    /// Tells of the plan and what came of it, if asked to.
    pub(crate) fn explain(&self, moved: &Moved, took: Duration) {
        if !self.options.explain_plan {
            return;
        }
        match (self.plan.basis(), &self.why) {
            (Basis::Asked, _) => say(format_args!("plan: the route that was asked for")),
            (Basis::Profile, _) => say(format_args!("plan: by what was measured on this machine")),
            (Basis::Rules, Some(why)) => say(format_args!("plan: by rules; {why}")),
            (Basis::Rules, None) => {
                say(format_args!("plan: by rules; the job is too small to look at the profile"));
            }
        }
        for line in self.plan.to_string().lines() {
            say(format_args!("  {line}"));
        }
        for gave in &moved.declined {
            say(format_args!("{} gave up at byte {}: {}", gave.route, gave.offset, gave.why));
        }
        let rate = moved.bytes as f64 / f64::from(1 << 30) / took.as_secs_f64().max(1e-9);
        say(format_args!("came: {} bytes by {}, {rate:.2} GiB/s", moved.bytes, moved.route));
    }
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
