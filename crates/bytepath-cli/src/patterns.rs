//! Arms by their names, as patterns choose them.

use crate::usage::wrong_usage;

/// Those that a pattern chooses; all where there is none. One of the `given` patterns that chooses
/// nothing is a mistake, whatever the others choose.
pub(crate) fn by_each<T>(
    all: Vec<T>,
    given: &[String],
    patterns: &[glob::Pattern],
    is_by: impl Fn(&glob::Pattern, &T) -> bool,
) -> Result<Vec<T>, String> {
    let is_vain = |pattern: &glob::Pattern| !all.iter().any(|one| is_by(pattern, one));
    let vain = patterns.iter().zip(given).filter(|(pattern, _)| is_vain(pattern));
    let vain: Vec<_> = vain.map(|(_, given)| given.as_str()).collect();
    if !vain.is_empty() {
        return Err(format!("no arm matches {}", vain.join(",")));
    }
    let is_chosen = |one: &T| patterns.is_empty() || patterns.iter().any(|glob| is_by(glob, one));
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// Those of the names of arms that match, at a / or @ or as a whole.
pub(crate) fn chosen_names(names: Vec<String>, globs: &[String]) -> anyhow::Result<Vec<String>> {
    let is_by = |glob: &glob::Pattern, name: &String| {
        is_named(glob, name) || name.split('/').any(|part| glob.matches(part))
    };
    by_each(names, globs, &patterns(globs)?, is_by).map_err(wrong_usage)
}

/// Those of the names that match, all where no pattern is given.
pub(crate) fn matching(names: Vec<String>, globs: &[String]) -> anyhow::Result<Vec<String>> {
    let there_are = names.join(", ");
    by_each(names, globs, &patterns(globs)?, |glob, name| is_named(glob, name))
        .map_err(|none| wrong_usage(format!("{none}; there are: {there_are}")))
}

pub(crate) fn patterns(globs: &[String]) -> anyhow::Result<Vec<glob::Pattern>> {
    let pattern = |text: &String| {
        let pattern = glob::Pattern::new(text);
        pattern.map_err(|error| wrong_usage(format!("{text:?} is no pattern: {}", error.msg)))
    };
    globs.iter().map(pattern).collect()
}

pub(crate) fn is_named(glob: &glob::Pattern, name: &str) -> bool {
    // The rung, the rung @ the placement, or all of the name with the axes.
    let rung = name.split('@').next().unwrap_or_default();
    let placed = name.split('/').next().unwrap_or_default();
    [rung, placed, name].iter().any(|name| glob.matches(name))
}
