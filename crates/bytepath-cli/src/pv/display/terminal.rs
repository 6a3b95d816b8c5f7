//! What the terminal can show, as far as its surroundings tell.

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terminal {
    /// Whether letters beyond ASCII arrive as such; without, every bar is plain.
    pub(crate) utf8: bool,
    /// Whether colours are shown, and wanted.
    pub(crate) colours: bool,
}

impl Terminal {
    /// What these variables of the environment tell: the locale's about letters; NO_COLOR, which pv
    /// does not know, and TERM about colours.
    pub(crate) fn told_by(variable: impl Fn(&str) -> Option<String>) -> Self {
        let told = |name: &str| variable(name).filter(|value| !value.is_empty());
        // The first of them that says anything counts.
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(told).unwrap_or_default();
        let letters = locale.to_ascii_lowercase();
        Self {
            utf8: letters.contains("utf-8") || letters.contains("utf8"),
            colours: told("NO_COLOR").is_none() && told("TERM").is_none_or(|name| name != "dumb"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(variables: &[(&str, &str)]) -> (bool, bool) {
        let value = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let terminal = Terminal::told_by(value);
        (terminal.utf8, terminal.colours)
    }

    #[test]
    fn the_first_variable_that_says_anything_tells_the_letters() {
        assert!(told(&[("LANG", "de_DE.UTF-8")]).0);
        assert!(told(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8"), ("LANG", "C")]).0);
        assert!(!told(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]).0);
        assert!(!told(&[("LANG", "de_DE.ISO-8859-1")]).0);
        assert!(!told(&[]).0);
    }

    #[test]
    fn colours_are_there_unless_they_are_not_wanted_or_not_known() {
        assert!(told(&[]).1);
        assert!(told(&[("TERM", "xterm"), ("NO_COLOR", "")]).1);
        assert!(!told(&[("TERM", "xterm"), ("NO_COLOR", "1")]).1);
        assert!(!told(&[("TERM", "dumb")]).1);
    }
}
