//! What the person asked to see: pv's own switches, with pv's own letters and names.

use clap::Args;

use super::bar::BarStyle;
use super::values::{integer, seconds, shown, whole_seconds};

/// Everything about what is shown and how. Which bytes move, and how many there will be, is told
/// elsewhere.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct DisplayOptions {
    /// Show a progress bar; without a known size it is a marker that moves to and fro
    #[arg(short = 'p', long, help_heading = SHOWN)]
    pub(crate) progress: bool,

    /// Show how long the transfer has been going on
    #[arg(short = 't', long, help_heading = SHOWN)]
    pub(crate) timer: bool,

    /// Show how long it will take until the end, once the size is known
    #[arg(short = 'e', long, help_heading = SHOWN)]
    pub(crate) eta: bool,

    /// Show at what local time it will end, once the size is known
    #[arg(short = 'I', long, help_heading = SHOWN)]
    pub(crate) fineta: bool,

    /// Show how fast it goes now
    #[arg(short = 'r', long, help_heading = SHOWN)]
    pub(crate) rate: bool,

    /// Show how fast it went on average over the last while (see --average-rate-window)
    #[arg(short = 'a', long, help_heading = SHOWN)]
    pub(crate) average_rate: bool,

    /// Show how much has been moved
    #[arg(short = 'b', long, help_heading = SHOWN)]
    pub(crate) bytes: bool,

    /// Show how full the buffer is, in percent
    #[arg(short = 'T', long, help_heading = SHOWN)]
    pub(crate) buffer_percent: bool,

    /// Show the last NUM bytes written
    #[arg(short = 'A', long, value_name = "NUM", value_parser = integer(), help_heading = SHOWN)]
    pub(crate) last_written: Option<usize>,

    /// Show exactly this instead; once more for the other side of --monitor
    ///
    /// Text, with these in it: %p (%{progress}) the bar and the percentage, %t (%{timer}) the time
    /// gone, %e (%{eta}) the time left, %I (%{fineta}) the time of the end, %r (%{rate}) the rate,
    /// %a (%{average-rate}) the average rate, %b (%{bytes}, %{transferred}) the amount, %T
    /// (%{buffer-percent}) the buffer, %A (%{last-written}) the last bytes, %L (%{previous-line})
    /// the last line, %N (%{name}) the name, %% a percent sign; %{progress-bar-only},
    /// %{bar-plain}, %{bar-block}, %{bar-granular} and %{bar-shaded} a bar alone,
    /// %{progress-amount-only} the percentage alone, %{progress-conemu} what --conemu tells,
    /// %{ratio} the other side's amount against this one, %{durable} the amount on the disk, and
    /// %{sgr:red,bold} colours by name or number, until %{sgr:reset}. A number behind the percent
    /// sign is how many columns a bar, a line or a name has, or how many bytes: %20p, %16A.
    #[arg(short = 'F', long, value_name = "FORMAT", value_parser = shown(), help_heading = SHOWN)]
    pub(crate) format: Vec<String>,

    /// Write numbers for a program, one line each time, instead of a picture for a person
    ///
    /// The percentage; with --bytes or --rate those instead, and with --timer the seconds before
    /// them. With --format whatever it says, such as
    /// '{"elapsed":%t,"bytes":%b,"rate":%r,"percent":%{progress-amount-only}}' for lines of JSON.
    #[arg(short = 'n', long, help_heading = SHOWN)]
    pub(crate) numeric: bool,

    /// Show nothing
    #[arg(short = 'q', long, help_heading = SHOWN)]
    pub(crate) quiet: bool,

    /// Count bits instead of bytes
    #[arg(short = '8', long, help_heading = CHANGED)]
    pub(crate) bits: bool,

    /// Units are powers of 1000, not of 1024
    #[arg(short = 'k', long, help_heading = CHANGED)]
    pub(crate) si: bool,

    /// Show nothing until the first byte has been moved
    #[arg(short = 'W', long, help_heading = CHANGED)]
    pub(crate) wait: bool,

    /// Show nothing for the first SEC seconds
    #[arg(short = 'D', long, value_name = "SEC", value_parser = seconds(), help_heading = CHANGED)]
    pub(crate) delay_start: Option<f64>,

    /// Without a known size, let the bar show the rate in percent of the highest so far
    #[arg(short = 'g', long, help_heading = CHANGED)]
    pub(crate) gauge: bool,

    /// Count lines instead of bytes
    #[arg(short = 'l', long, help_heading = CHANGED)]
    pub(crate) line_mode: bool,

    /// Lines end with a zero byte; means --line-mode too
    #[arg(short = '0', long, help_heading = CHANGED)]
    pub(crate) null: bool,

    /// Draw every SEC seconds
    #[arg(short = 'i', long, value_name = "SEC", value_parser = seconds(), help_heading = CHANGED)]
    pub(crate) interval: Option<f64>,

    /// Average the rate over the last SEC seconds; the time left follows from it
    #[arg(short = 'm', long, value_name = "SEC", value_parser = whole_seconds(), help_heading = CHANGED)]
    pub(crate) average_rate_window: Option<u64>,

    /// Take the terminal for this many columns wide
    #[arg(short = 'w', long, value_name = "WIDTH", value_parser = integer(), help_heading = CHANGED)]
    pub(crate) width: Option<usize>,

    /// Take the terminal for this many rows high
    #[arg(short = 'H', long, value_name = "HEIGHT", value_parser = integer(), help_heading = CHANGED)]
    pub(crate) height: Option<usize>,

    /// Begin each line with this name; once more for the other side of --monitor
    #[arg(short = 'N', long, value_name = "NAME", value_parser = shown(), help_heading = CHANGED)]
    pub(crate) name: Vec<String>,

    /// How bars look: plain, block, granular or shaded
    #[arg(short = 'u', long, value_name = "STYLE", help_heading = CHANGED)]
    pub(crate) bar_style: Option<BarStyle>,

    /// Write it also to the title of the window or of the process: window,process[:FORMAT]
    #[arg(short = 'x', long, value_name = "SPEC", help_heading = CHANGED)]
    pub(crate) extra_display: Option<String>,

    /// Tell the terminal how far it is, for its tab, as ConEmu has it
    #[arg(short = '9', long, help_heading = CHANGED)]
    pub(crate) conemu: bool,

    /// At the end, tell the lowest, mean and highest rate and how far it strayed
    #[arg(short = 'v', long, help_heading = CHANGED)]
    pub(crate) stats: bool,

    /// Show it also where standard error is no terminal
    #[arg(short = 'f', long, help_heading = CHANGED)]
    pub(crate) force: bool,

    /// Move the cursor to this line's own row each time, so that several can share a terminal
    #[arg(short = 'c', long, help_heading = CHANGED)]
    pub(crate) cursor: bool,

    /// Whether it is one of several, whose name is told whatever else is
    #[arg(skip)]
    pub(crate) named: bool,
}

const SHOWN: &str = "What is shown";
const CHANGED: &str = "How it is shown";

impl DisplayOptions {
    /// What ends a line.
    pub(crate) fn line_end(&self) -> u8 {
        if self.null { 0 } else { b'\n' }
    }

    /// Whether lines are counted, not bytes: asked for, or meant by --null.
    pub(crate) fn counts_lines(&self) -> bool {
        self.line_mode || self.null
    }
}
