//! How every mover comes to its plan, what its user may say about it, and what is told of it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytepath::machine::Machine;
use bytepath::plan::{Basis, PlanError};
use bytepath::profile::ProfileError;
use bytepath::routes::ROUTES;
use bytepath::{Cancel, Job, Knobs, Meter, Moved, Plan, Profile, Transfer, TransferError};
use clap::Args;

use crate::say;

/// How long a movement goes by rules before it looks at the profile: fifty times what looking takes,
/// so that no job pays more than 2% for it, and most pay nothing.
const PROFILE_AFTER: Duration = Duration::from_millis(20);

/// Bytes of the first stretch by rules; each is twice the one before.
const STRETCH_BYTES: u64 = 1 << 20;

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
    /// The plan that a job begins with: the route named, or by rules.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn begin(&self, job: &Job<'_>, knobs: Knobs) -> Result<Planning<'_>, CarryError> {
        let plan = match &self.route {
            Some(name) => Plan::only(name, job, knobs.clone())?,
            None => Plan::best(job, knobs.clone())?,
        };
        let (plan, settled) = (self.sparing(plan), self.route.is_some());
        Ok(Planning { options: self, knobs, plan, settled, began: Instant::now(), why: None })
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
        let mut planning = self.begin(&carrying.job, carrying.knobs.clone())?;
        let mut total = Moved { bytes: 0, route: "", declined: Vec::new() };
        let mut stretch = STRETCH_BYTES;
        loop {
            let left = carrying.job.limit.map_or(u64::MAX, |limit| limit - total.bytes);
            let most = if planning.settled { left } else { stretch.min(left) };
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
            planning.look(&carrying.job)?;
            stretch = stretch.saturating_mul(2);
        }
        planning.explain(&total);
        Ok(total)
    }
}

/// The plan of a movement as it goes on.
///
/// It begins by rules. What is over soon is not worth a look at the profile, whatever its size; what
/// goes on is.
pub(crate) struct Planning<'o> {
    options: &'o PlanOptions,
    knobs: Knobs,
    plan: Plan,
    /// Whether the plan stays as it is.
    settled: bool,
    began: Instant,
    /// Why the profile has no say.
    why: Option<String>,
}

impl Planning<'_> {
    /// The plan now.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Settles on the plan for what is left of a job, once it has gone on for long enough. To be
    /// called now and then.
    ///
    /// # Errors
    /// The profile that was named cannot be used.
    pub(crate) fn look(&mut self, job: &Job<'_>) -> Result<(), CarryError> {
        if self.settled || self.began.elapsed() < PROFILE_AFTER {
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
    pub(crate) fn explain(&self, moved: &Moved) {
        if !self.options.explain_plan {
            return;
        }
        match (self.plan.basis(), &self.why) {
            (Basis::Asked, _) => say(format_args!("plan: the route that was asked for")),
            (Basis::Profile, _) => say(format_args!("plan: by what was measured on this machine")),
            (Basis::Rules, Some(why)) => say(format_args!("plan: by rules; {why}")),
            (Basis::Rules, None) => {
                say(format_args!(
                    "plan: by rules; the job was over too soon to look at the profile"
                ));
            }
        }
        for line in self.plan.to_string().lines() {
            say(format_args!("  {line}"));
        }
        for gave in &moved.declined {
            say(format_args!("{} gave up at byte {}: {}", gave.route, gave.offset, gave.why));
        }
        let rate =
            moved.bytes as f64 / f64::from(1 << 30) / self.began.elapsed().as_secs_f64().max(1e-9);
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
