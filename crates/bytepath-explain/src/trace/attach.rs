//! Attaches programs by trying the ways that there are, and remembers which it was and why not another.

use super::asm::Asm;
use super::hook::{self, Event, Held, Hook, Kernel, Refused, Unknown, Way};
use bytepath_report::TraceAttachment;

use super::TraceError;

/// What is attached so far. All of it is detached when this goes.
#[derive(Debug)]
pub(super) struct Attached<'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) held: Vec<Held>,
    pub(super) told: Vec<TraceAttachment>,
    /// The ways to try; all but in tests of one.
    pub(super) ways: Vec<Way>,
}

impl<'k> Attached<'k> {
    pub(super) fn new(kernel: &'k Kernel, ways: &[Way]) -> Attached<'k> {
        Attached { kernel, held: Vec::new(), told: Vec::new(), ways: ways.to_vec() }
    }

    /// Attaches what `make` makes to an event, in the first way that works.
    ///
    /// # Errors
    /// Where none does, with what each was refused for.
    pub(super) fn on(
        &mut self,
        event: Event,
        make: impl Fn(&Hook<'_>) -> Result<Asm, Unknown>,
    ) -> Result<(), TraceError> {
        let mut refused = Vec::new();
        let mut errno = None;
        for way in self.ways.clone() {
            match self.attach(event, way, &make) {
                Ok(held) => {
                    self.held.push(held);
                    self.told.push(TraceAttachment {
                        to: format!("{}:{}", event.group, event.name),
                        by: way.to_string(),
                        refused,
                    });
                    return Ok(());
                }
                Err(why) => {
                    errno = errno.or(why.errno());
                    refused.push(format!("{way}: {why}"));
                }
            }
        }
        Err(TraceError::attach(&format!("{}:{}", event.group, event.name), errno, &refused))
    }

    fn attach(
        &self,
        event: Event,
        way: Way,
        make: &impl Fn(&Hook<'_>) -> Result<Asm, Unknown>,
    ) -> Result<Held, Refused> {
        let hook = Hook::new(self.kernel, event, way)?;
        hook.attach(make(&hook)?)
    }

    /// Attaches a program to the entry of the first of these kernel functions that allows it; or says
    /// why none does.
    pub(super) fn on_entry(
        &mut self,
        functions: &[&str],
        make: impl Fn() -> Result<Asm, Unknown>,
    ) -> Result<(), String> {
        let mut refused = Vec::new();
        for function in functions {
            let attached = make()
                .map_err(Refused::Unknown)
                .and_then(|asm| hook::attach_entry(self.kernel, function, asm));
            match attached {
                Ok(held) => {
                    self.held.push(held);
                    let (to, by) = ((*function).to_owned(), "fentry".to_owned());
                    self.told.push(TraceAttachment { to, by, refused });
                    return Ok(());
                }
                Err(why) => refused.push(format!("fentry {function}: {why}")),
            }
        }
        Err(refused.join("; "))
    }
}
