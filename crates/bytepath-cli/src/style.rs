//! How text for people looks: colour, width and characters, as standard output and the locale allow.

use std::io::IsTerminal as _;

use bytepath_report::{plot, table};

use crate::live;

/// Colour and width as standard output allows.
pub(crate) fn style() -> table::Style {
    let out = std::io::stdout();
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let plain = plain || live::is_dumb();
    let width = rustix::termios::tcgetwinsize(&out).ok().map(|size| size.ws_col);
    table::Style { colour: out.is_terminal() && !plain, width: width.filter(|width| *width > 0) }
}

/// Colour, width and characters as standard output and the locale allow.
pub(crate) fn plot_style() -> plot::Style {
    let table::Style { colour, width } = style();
    plot::Style { colour, width, unicode: unicode() }
}

/// Whether the locale's letters are more than ASCII.
fn unicode() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(std::env::var_os);
    let locale = set.into_iter().find(|value| !value.is_empty()).unwrap_or_default();
    let locale = locale.to_string_lossy().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}
