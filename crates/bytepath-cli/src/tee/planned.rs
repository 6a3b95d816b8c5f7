//! How tee comes to its plan: a profile that was named is read at once and has to be good; the usual one
//! is looked at when there is much to move, and rules do without it.

use std::borrow::Cow;
use std::path::Path;
use std::sync::OnceLock;

use bytepath::fan_out::FanOutPlan;
use bytepath::{Endpoint, Pipes, Profile};

use crate::planning::{named_profile, usual_profile};

/// See the module.
pub(super) struct Planned {
    named: Option<Profile>,
    pipes: Pipes,
    /// What the plan goes by, once a profile was looked for.
    basis: OnceLock<String>,
}

impl Planned {
    /// # Errors
    /// The profile that was named cannot be used, in words.
    pub(super) fn by(named: Option<&Path>, pipes: Pipes) -> Result<Planned, String> {
        let named = named.map(named_profile).transpose().map_err(|error| error.to_string())?;
        Ok(Planned { named, pipes, basis: OnceLock::new() })
    }

    /// The plan from `source` to `sinks`.
    pub(super) fn plan(&self, source: &Endpoint<'_>, sinks: &[Option<Endpoint<'_>>]) -> FanOutPlan {
        let profile = match &self.named {
            Some(profile) => Ok(Cow::Borrowed(profile)),
            None => usual_profile().map(Cow::Owned),
        };
        let (plan, basis) = match profile {
            Ok(profile) => {
                let plan = FanOutPlan::by_profile(&profile, source, sinks, self.pipes);
                let rules =
                    plan.unmeasured().map(|what| format!("by rules; {}", what.told(&profile)));
                (
                    plan,
                    rules.unwrap_or_else(|| profile.basis_between(source, sinks.iter().flatten())),
                )
            }
            Err(why) => (FanOutPlan::by_rules(), format!("by rules; {why}")),
        };
        // Asked for once; if it were twice, the first would do.
        let _ = self.basis.set(basis);
        plan
    }

    /// What the plan goes by.
    pub(super) fn basis(&self) -> &str {
        let unseen = "by rules; the job was too small to look at the profile";
        self.basis.get().map_or(unseen, String::as_str)
    }
}
