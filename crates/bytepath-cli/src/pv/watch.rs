//! Draws while another thread moves: waits for the next drawing, a signal, or the end.

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant, SystemTime};

use bytepath::{Endpoint, Kind};

use super::Settings;
use super::cursor::Row;
use super::display::{Display, DisplayOptions, Moment};
use super::live::Live;
use super::screen::Screen;
use super::signals::Asked;
use super::tally::Tally;
use super::usage::Wrong;

/// Time that runs only while the process does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    /// What it told when it was ended.
    ended: Option<Duration>,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { started: Instant::now(), ended: None }
    }

    /// Goes no further.
    pub(crate) fn end(&mut self) {
        self.ended = Some(self.elapsed());
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.ended.unwrap_or_else(|| self.started.elapsed())
    }

    /// Leaves out the time since `since`.
    pub(crate) fn leave_out(&mut self, since: Instant) {
        self.started += since.elapsed();
    }
}

/// One bar: what draws it and what it is drawn from.
pub(crate) struct Bar<'a> {
    pub(crate) display: Display,
    pub(crate) side: Side<'a>,
}

/// What a bar is drawn from.
pub(crate) struct Side<'a> {
    pub(crate) tally: &'a Tally,
    pub(crate) other: Option<&'a Tally>,
    pub(crate) name: Option<String>,
    pub(crate) clock: Clock,
    /// Whether its clock waits for the first byte.
    pub(crate) waiting: bool,
    /// Whether only what is on the device counts.
    pub(crate) durable: bool,
    /// The output, if it is a pipe: what its reader has not taken does not count yet.
    pub(crate) pipe: Option<BorrowedFd<'a>>,
    /// The most that was told: a pipe may be filled between two looks at it.
    pub(crate) told: Cell<u64>,
}

impl<'a> Bar<'a> {
    /// A bar of the options, with what they say for the given side.
    pub(crate) fn new(
        options: &DisplayOptions,
        side: usize,
        tally: &'a Tally,
    ) -> Result<Bar<'a>, Wrong> {
        let display = Display::new(&options_of(options, side))?;
        let name = of_side(&options.name, side).cloned();
        let waiting = options.wait;
        let clock = Clock::start();
        let side = Side {
            tally,
            other: None,
            name,
            clock,
            waiting,
            durable: false,
            pipe: None,
            told: Cell::new(0),
        };
        Ok(Bar { display, side })
    }
}

impl<'a> Side<'a> {
    /// Counts what this output has: of a pipe what its reader has taken, and with --durable what is on the
    /// device. As pv does: a pipe holds up to a megabyte, which is long for a slow reader.
    pub(crate) fn goes_to(&mut self, sink: &'a Endpoint<'_>, settings: &Settings) {
        self.durable = settings.options.transfer.durable;
        self.pipe = (sink.kind() == Kind::Pipe).then(|| sink.as_fd());
    }

    /// For how long it has been going on.
    pub(crate) fn elapsed(&self) -> Duration {
        self.tally.told_elapsed().unwrap_or_else(|| self.clock.elapsed())
    }

    fn bytes(&self, last: bool) -> u64 {
        let moved = self.tally.bytes();
        let waiting = match self.pipe {
            Some(pipe) if !last => rustix::io::ioctl_fionread(pipe).unwrap_or(0),
            _ => 0,
        };
        let taken = moved.saturating_sub(waiting).max(self.told.get());
        self.told.set(taken);
        taken
    }

    /// What is to be drawn now.
    pub(crate) fn moment<'m>(
        &'m self,
        options: &DisplayOptions,
        tail: &'m super::tally::Tail,
        last: bool,
    ) -> Moment<'m> {
        let lines = options.counts_lines();
        Moment {
            elapsed: self.elapsed(),
            amount: match lines {
                true => self.tally.lines(),
                false if self.durable => self.tally.durable_bytes(),
                false => self.bytes(last),
            },
            size: self.tally.size(),
            buffer: self.tally.buffer(),
            last_written: &tail.bytes,
            previous_line: &tail.line,
            durable: self.durable.then(|| self.tally.durable_bytes()),
            other_side: self.other.map(if lines { Tally::lines } else { Tally::bytes }),
            now: SystemTime::now(),
            last,
            name: self.name.as_deref(),
        }
    }
}

/// The side that the last of a repeated option is for, where there are no two.
pub(crate) const LAST: usize = usize::MAX;

/// The options as one side of --monitor has them: the last of a repeated option, but of two that
/// are for two sides its own.
pub(crate) fn options_of(options: &DisplayOptions, side: usize) -> DisplayOptions {
    let format = of_side(&options.format, side).cloned().into_iter().collect();
    let name = of_side(&options.name, side).cloned().into_iter().collect();
    DisplayOptions { format, name, ..options.clone() }
}

fn of_side<T>(values: &[T], side: usize) -> Option<&T> {
    values.get(side.min(values.len().saturating_sub(1)))
}

/// Draws one or two bars.
pub(crate) struct Watch<'a> {
    pub(crate) settings: Settings,
    pub(crate) live: &'a Live,
    pub(crate) screen: Option<Screen>,
    pub(crate) bars: Vec<Bar<'a>>,
    began: Clock,
    /// When the next drawing is due.
    next: Instant,
    /// How many lines the last drawing had: the next begins that much higher.
    drawn_lines: usize,
    /// Our rows of the terminal, with --cursor, once they were asked for.
    row: Option<Row>,
    asked_for_rows: bool,
}

impl<'a> Watch<'a> {
    /// Nothing is drawn yet.
    pub(crate) fn new(
        settings: &Settings,
        live: &'a Live,
        screen: Option<Screen>,
        bars: Vec<Bar<'a>>,
    ) -> Watch<'a> {
        Watch {
            settings: settings.clone(),
            live,
            screen,
            bars,
            began: Clock::start(),
            next: Instant::now() + settings.interval,
            drawn_lines: 0,
            row: None,
            asked_for_rows: false,
        }
    }

    /// Takes rows of the terminal, with --cursor, unless they are taken. Bytes move meanwhile,
    /// however long the terminal or another pv takes to answer. Signals are caught by now, so that
    /// none ends this while the terminal is asked.
    pub(crate) fn take_rows(&mut self) {
        if std::mem::replace(&mut self.asked_for_rows, true) {
            return;
        }
        let display = &self.settings.options.display;
        let cursor = display.cursor && !display.numeric;
        let screen = self.screen.as_ref().filter(|screen| cursor && screen.is_terminal());
        self.row = screen.and_then(|screen| Row::taken(screen, self.bars.len()));
    }

    /// How long nothing has to be drawn; `None` is until something happens.
    pub(crate) fn idle(&self) -> Option<Duration> {
        let left = self.next.saturating_duration_since(Instant::now());
        let left = self.screen.is_some().then_some(left);
        // While the clock waits for a first byte, it is looked for more often.
        let waiting = self.bars.iter().any(|bar| bar.side.waiting);
        if waiting { left.map(|left| left.min(FIRST_BYTE_LOOK)) } else { left }
    }

    /// Lets the clocks run that wait for a first byte, if it came: from when it was last seen that none
    /// had come, as what came since then took its time.
    pub(crate) fn look(&mut self) {
        for Bar { side, .. } in &mut self.bars {
            if side.waiting && side.tally.bytes() == 0 {
                side.clock = Clock::start();
            } else {
                side.waiting = false;
            }
        }
    }

    /// Does what a signal asks for, but for ending.
    pub(crate) fn answer(&mut self, asked: Asked) {
        match asked {
            Asked::End(_) => {}
            Asked::Stop => self.stop(),
            Asked::Continued => self.next = Instant::now(),
            Asked::Resized => self.resized(),
            Asked::Wish => {
                self.refresh();
                super::remote::answer(self);
            }
        }
    }

    /// Draws, if it is time to.
    pub(crate) fn draw_if_due(&mut self) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + self.settings.interval;
        if self.shown() {
            self.refresh();
            self.draw(false);
        }
    }

    /// Has movers that a slow reader keeps in a call tell how much of it is done, however large it is.
    pub(crate) fn refresh(&self) {
        let nudged = self.bars.iter().filter(|bar| bar.side.tally.nudge()).count();
        if nudged > 0 {
            std::thread::sleep(NUDGED);
        }
    }

    /// Whether --delay-start is over.
    fn shown(&self) -> bool {
        let delay = self.settings.options.display.delay_start.unwrap_or(0.0);
        self.began.elapsed() >= Duration::try_from_secs_f64(delay).unwrap_or(Duration::MAX)
    }

    fn stop(&mut self) {
        let since = Instant::now();
        super::signals::stop_here();
        // Continued: other signals that came meanwhile are still in the queue.
        for bar in &mut self.bars {
            bar.side.clock.leave_out(since);
        }
        self.drawn_lines = 0;
        self.resized();
    }

    /// Draws by other options from now on.
    pub(crate) fn change(&mut self, wished: Settings) {
        let transfer = &mut self.settings.options;
        let display = super::remote::merged(&transfer.display, wished.options.display.clone());
        let alone = self.bars.len() == 1;
        for (place, bar) in self.bars.iter_mut().enumerate() {
            let options = options_of(&display, if alone { LAST } else { place });
            let (Ok(()), Ok(blank)) = (bar.display.change(&options), Display::new(&options)) else {
                // What cannot be drawn is not; it goes on as before.
                continue;
            };
            bar.side.name = options.name.first().cloned();
            if place > 0 && bar.side.other.is_some() {
                bar.display = std::mem::replace(&mut bar.display, blank).with_ratio();
            }
        }
        if let Some(screen) = &mut self.screen {
            screen.give_size(display.width, display.height);
        }
        if wished.options.display.interval.is_some() {
            self.settings.interval = wished.interval;
        }
        self.settings.options.display = display;
    }

    fn resized(&mut self) {
        if let Some(screen) = &mut self.screen {
            screen.resize();
        }
    }

    fn draw(&mut self, last: bool) {
        let Some(screen) = &self.screen else { return };
        // Drawn also where it is not shown: rates and the summary follow from all moments.
        let shown = screen.shows_lines();
        let options = &self.settings.options.display;
        let mut lines = Vec::new();
        for bar in &mut self.bars {
            if bar.side.waiting && !(last && bar.side.tally.bytes() > 0) {
                continue;
            }
            let Bar { display, side } = bar;
            let tail = side.tally.tail.lock().map(|tail| tail.clone()).unwrap_or_default();
            let moment = side.moment(options, &tail, last);
            if screen.numeric() {
                let line = display.numeric_line(&moment);
                if shown {
                    screen.line(&line);
                }
            } else {
                lines.push(screen.fitted(&display.draw(&moment, screen.width())));
            }
            let extra = display.extra(&moment, screen.width());
            if shown {
                screen.titles(&extra);
            }
        }
        if !shown {
            return;
        }
        match (&mut self.row, lines.as_slice()) {
            (_, []) => {}
            (Some(row), lines) => row.draw(lines, screen),
            (None, lines) => {
                // What was drawn stands above a message that came since.
                let drawn = if crate::live::stands() { self.drawn_lines } else { 0 };
                let up = "\x1b[A".repeat(drawn.saturating_sub(1));
                self.drawn_lines = lines.len();
                screen.draw(&format!("{up}{}", lines.join("\n\r")));
            }
        }
    }

    /// Draws how it ended.
    pub(crate) fn draw_last(&mut self) {
        self.look();
        self.take_rows();
        if self.shown() {
            self.draw(true);
        }
        let Some(screen) = &self.screen else { return };
        if let Some(row) = self.row.take() {
            row.end(screen);
        }
        screen.end_line();
        for bar in &self.bars {
            if let Some(summary) = bar.display.summary() {
                screen.line(&summary);
            }
        }
    }
}

/// A mover that was nudged tells how far it is within this time.
const NUDGED: Duration = Duration::from_micros(500);

/// How soon the first byte is noticed with --wait.
const FIRST_BYTE_LOOK: Duration = Duration::from_millis(20);
