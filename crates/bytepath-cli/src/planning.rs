//! What the user of a mover may say about its plan, and how it is explained; the library plans.

mod between;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

pub(crate) use bytepath::planning::{
    CarryError, Clock, Planning, named_profile, no_folder, usual_profile,
};
use bytepath::planning::{Carrying as Work, Wishes};
use bytepath::profile::ProfileError;
use bytepath::routes::{ROUTES, by_name};
use bytepath::{Cancel, Job, Knobs, Meter, Moved, Plan, Profile};
use clap::Args;
use clap::builder::TypedValueParser;
use rustix::io::Errno;

use crate::said::say;
use crate::values::one_of;

/// Options of every mover.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Plan")]
pub(crate) struct PlanOptions {
    /// Move by this route alone, or fail
    #[arg(long, value_name = "NAME", value_parser = one_of(routes()))]
    pub(crate) route: Option<String>,
    /// The profile of this machine, as bytepath tune made it; its usual place unless given
    #[arg(long, value_name = "FILE", conflicts_with = "route")]
    pub(crate) profile: Option<PathBuf>,
    /// Say on standard error which route was chosen and why, what was expected, and what came
    #[arg(long)]
    pub(crate) explain_plan: bool,
    /// Leave pipes at either end, and the buffers of Unix sockets, at the size they have, instead of
    /// making them larger
    #[arg(long)]
    pub(crate) no_enlarge: bool,
    /// The profile that was named, read once for all that is moved.
    #[arg(skip)]
    pub(crate) read: OnceLock<Arc<Profile>>,
}

/// Tells by which option there is no plan for a job.
pub(crate) fn explain_by_hand(job: &Job<'_>, option: &str) {
    let between = between::between(job);
    say(format_args!("plan for {between}: read and written by hand, because of {option}"));
}

/// The routes of movers. `tee` keeps its source, which no mover does.
fn routes() -> impl Iterator<Item = (&'static str, &'static str)> {
    let routes = ROUTES.iter().map(|route| (route.name(), route.summary()));
    routes.filter(|(name, _)| *name != "tee")
}

/// Takes the name of one of them, and lists them with what they do.
pub(crate) fn route() -> impl TypedValueParser<Value = &'static str> {
    one_of(routes()).try_map(|name| by_name(&name).map(|it| it.name()).ok_or("no such route"))
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
    /// Who is shown the plan that it begins with, and says whether that may be; else it goes in order.
    pub(crate) planned: Option<&'a dyn Fn(&Plan) -> bool>,
}

impl PlanOptions {
    /// The file that is read besides the operands, if one is.
    pub(crate) fn file(&self) -> Option<&OsStr> {
        self.profile.as_deref().map(Path::as_os_str)
    }

    /// Reads a profile that was named, before anything is touched, and keeps it.
    ///
    /// # Errors
    /// It cannot be used.
    pub(crate) fn check(&self) -> Result<(), ProfileError> {
        if let Some(path) = &self.profile {
            // Whoever asks twice has the one that was read first.
            let _ = self.read.set(Arc::new(named_profile(path)?));
        }
        Ok(())
    }

    /// The plan that a job begins with: the route named, or the best for what is known of the job.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn begin(&self, job: &Job<'_>, knobs: Knobs) -> Result<Planning<'_>, CarryError> {
        let (route, profile) = (self.route.as_deref(), self.read.get().map(Arc::as_ref));
        assert!(self.profile.is_none() || profile.is_some(), "it is checked before it is gone by");
        Wishes { route, profile, leave_pipes: self.no_enlarge }.begin(job, knobs)
    }

    /// Carries a job out by the best plan for it, and explains that if asked to.
    ///
    /// # Errors
    /// See [`CarryError`].
    pub(crate) fn carry(&self, carrying: &Carrying<'_>) -> Result<Moved, CarryError> {
        self.carry_in(u64::MAX, carrying, &mut |_| Ok(()))
    }

    /// The same in windows of so many bytes at most; `after` is called with the bytes of each, to
    /// bring them to the device.
    ///
    /// # Errors
    /// See [`CarryError`].
    pub(crate) fn carry_in(
        &self,
        window_bytes: u64,
        carrying: &Carrying<'_>,
        after: &mut dyn FnMut(u64) -> Result<(), Errno>,
    ) -> Result<Moved, CarryError> {
        let Carrying { mut job, meter, cancel, .. } = *carrying;
        let mut planning = self.begin(&job, carrying.knobs.clone())?;
        if carrying.planned.is_some_and(|planned| !planned(planning.plan())) {
            job = job.in_order();
            planning = self.begin(&job, carrying.knobs.clone())?;
        }
        let moved = planning.carry_in(window_bytes, &Work { job, meter, cancel }, after);
        self.explain(&planning, &job);
        moved
    }

    /// Tells of the plan and what came of it, if asked to.
    pub(crate) fn explain(&self, planning: &Planning<'_>, job: &Job<'_>) {
        if !self.explain_plan {
            return;
        }
        say(format_args!("plan for {}: {}", between::between(job), planning.reason()));
        for line in planning.told() {
            say(format_args!("{line}"));
        }
    }
}
