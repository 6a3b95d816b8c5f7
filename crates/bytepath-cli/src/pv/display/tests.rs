//! What no watching of pv can show: orders to the terminal, the last bytes and lines, both sides of
//! a command, and options that change what was drawn before.

use std::time::Duration;

use super::*;

fn display(options: DisplayOptions) -> Display {
    let mut display = Display::new(&options).expect("options");
    display.look.terminal = Terminal { utf8: true, colours: true };
    display.zone = local_time::utc;
    display
}

fn formatted(format: &str) -> Display {
    display(DisplayOptions { format: vec![format.into()], ..Default::default() })
}

fn at(seconds: u64, amount: u64) -> Moment<'static> {
    Moment { elapsed: Duration::from_secs(seconds), amount, ..Moment::default() }
}

#[test]
fn the_last_bytes_are_shown_from_the_right_with_dots_for_what_is_no_text() {
    let mut display = display(DisplayOptions { last_written: Some(8), ..Default::default() });
    let mut shown = |last_written: &[u8]| display.draw(&Moment { last_written, ..at(1, 9) }, 80);
    assert_eq!(shown(b""), "........");
    assert_eq!(shown(b"abc"), ".....abc");
    assert_eq!(shown(b"0123456789\n"), "3456789.");
    assert_eq!(shown("aé\x1b[2J".as_bytes()), ".a...[2J");
}

#[test]
fn the_last_line_takes_its_number_of_columns_or_what_is_left() {
    let mut display = formatted("%5L|%L|");
    let mut shown = |line: &str| {
        let moment = Moment { previous_line: line.as_bytes(), ..at(1, 9) };
        display.draw(&moment, 15)
    };
    assert_eq!(shown(""), "     |        |");
    assert_eq!(shown("a line of words"), "a lin|a line o|");
    assert_eq!(shown("a\tb\x1b[31m"), "a b [|a b [31m|");
    assert_eq!(shown("日本語"), "日本 |日本語  |");
}

#[test]
fn a_buffer_of_ours_has_a_percentage_and_others_a_sign() {
    let mut display = display(DisplayOptions { buffer_percent: true, ..Default::default() });
    let mut shown = |buffer: Buffer| display.draw(&Moment { buffer, ..at(1, 9) }, 80);
    let filled = |used_bytes, capacity_bytes| Buffer::Filled { used_bytes, capacity_bytes };
    assert_eq!(shown(filled(1, 3)), "{ 33%}");
    assert_eq!(shown(filled(4096, 4096)), "{100%}");
    assert_eq!(shown(filled(0, 0)), "{  0%}");
    assert_eq!(shown(Buffer::Unused(Way::Splice)), "{----}");
    assert_eq!(shown(Buffer::Unused(Way::SplicePipe)), "{-||-}");
    assert_eq!(shown(Buffer::Unused(Way::CopyFileRange)), "{--->}");
}

#[test]
fn a_ratio_has_one_for_the_smaller_side() {
    let mut display = formatted("%{ratio}");
    let mut shown = |amount, other_side| display.draw(&Moment { other_side, ..at(1, amount) }, 80);
    assert_eq!(shown(262_144, Some(300_000)), "1.144:1");
    assert_eq!(shown(300_000, Some(262_144)).trim_end(), "1:1.144");
    assert_eq!(shown(5, Some(5)).trim_end(), "1:1");
    assert_eq!(shown(8_192, Some(90_000_000)), "1.099e+04:1");
    for (amount, other_side) in [(0, Some(5)), (5, Some(0)), (0, None), (5, None)] {
        assert_eq!(shown(amount, other_side).trim_end(), "-:-");
    }
}

#[test]
fn the_output_of_a_command_shows_the_ratio_behind_the_rest() {
    let options = DisplayOptions { bytes: true, ..Default::default() };
    let mut display = display(options).with_ratio();
    let moment = Moment { other_side: Some(200), ..at(1, 100) };
    assert_eq!(display.draw(&moment, 80), " 100  B 2:1");
}

#[test]
fn a_name_from_elsewhere_gives_no_orders_and_counts_its_columns() {
    let mut display = display(DisplayOptions { bytes: true, ..Default::default() });
    let mut shown = |name| display.draw(&Moment { name: Some(name), ..at(1, 9) }, 80);
    assert_eq!(shown("ü漢"), "      ü漢: 9.00  B");
    assert_eq!(shown("a\x1b[2J\nb"), "  a?[2J?b: 9.00  B");
}

#[test]
fn one_of_several_tells_its_name_once_whatever_else_is_shown() {
    let shown = |format: &[&str], numeric| {
        let format = format.iter().map(|format| (*format).to_owned()).collect();
        let options =
            DisplayOptions { format, numeric, bytes: true, named: true, ..Default::default() };
        let moment = Moment { name: Some("it"), ..at(1, 9) };
        match numeric {
            true => display(options).numeric_line(&moment),
            false => display(options).draw(&moment, 80),
        }
    };
    assert_eq!(shown(&[], false), "       it: 9.00  B");
    assert_eq!(shown(&[], true), "       it: 9");
    assert_eq!(shown(&["%4N|%b"], false), "  it:|9.00  B");
    assert_eq!(shown(&["%b 100%%N"], false), "       it: 9.00  B 100%N");
    assert_eq!(shown(&["%b"], true), "       it: 9");
}

#[test]
fn nothing_but_colours_and_what_was_asked_for_leaves_the_line() {
    let mut display = formatted("a\n%b\r\t%{sgr:red}%N");
    let line = display.draw(&Moment { name: Some("x\ny"), ..at(1, 9) }, 80);
    assert_eq!(line, "a 9.00  B  \x1b[31m      x?y:\x1b[m");
}

#[test]
fn without_colours_their_codes_are_left_out() {
    let mut display = formatted("%{sgr:red}%b%{sgr:reset}");
    display.look.terminal.colours = false;
    assert_eq!(display.draw(&at(1, 9), 80), "9.00  B");
}

#[test]
fn without_utf8_bars_are_plain() {
    let mut display = formatted("%{bar-granular}|%{bar-shaded}|%8p");
    display.look.terminal.utf8 = false;
    let moment = Moment { size: Some(100), ..at(1, 50) };
    assert_eq!(display.draw(&moment, 20), "=>   |=>   |[>]  50%");
}

#[test]
fn a_shorter_line_covers_the_one_before_but_not_more_than_the_terminal() {
    let mut display = formatted("%e");
    let drawn = |display: &mut Display, amount, width| {
        display.draw(&Moment { size: Some(1 << 40), ..at(amount, amount) }, width)
    };
    assert_eq!(drawn(&mut display, 1, 80), "ETA 999999:23:59:59");
    let mut display = formatted("%N");
    let mut shown = |name, width| display.draw(&Moment { name: Some(name), ..at(1, 1) }, width);
    assert_eq!(shown("a name of many words", 80), "a name of many words:");
    assert_eq!(shown("x", 80), "        x:           ");
    assert_eq!(shown("y", 12), "        y:  ");
    assert_eq!(shown("z", 80), "        z:  ");
}

#[test]
fn the_terminals_tab_is_told_when_there_is_no_progress_any_more() {
    let options = DisplayOptions { conemu: true, bytes: true, ..Default::default() };
    let mut with_option = display(options);
    assert_eq!(with_option.draw(&at(1, 9), 80), "9.00  B\x1b]9;4;3;2\x1b\\");
    let last = with_option.draw(&Moment { last: true, ..at(2, 9) }, 80);
    assert_eq!(last, "9.00  B\x1b]9;4;3;4\x1b\\\x1b]9;4;0;0\x1b\\");
    let mut with_format = formatted("%{progress-conemu}");
    assert!(!with_format.draw(&at(1, 9), 80).contains("9;4;0"));
    assert!(with_format.draw(&Moment { last: true, ..at(1, 9) }, 80).ends_with(FAREWELL));
}

#[test]
fn titles_have_the_same_line_without_orders_to_the_terminal() {
    let options = DisplayOptions {
        extra_display: Some("window,process".into()),
        format: vec!["%{sgr:red}%b%{progress-conemu}".into()],
        ..Default::default()
    };
    let mut both = display(options);
    let title = Some("9.00  B".to_owned());
    let expected = Extra { window_title: title.clone(), process_title: title };
    assert_eq!(both.extra(&at(1, 9), 80), expected);
    let mut none = display(DisplayOptions::default());
    assert_eq!(none.extra(&at(1, 9), 80), Extra::default());
}

#[test]
fn drawing_and_titles_of_one_moment_are_one_step_of_the_marker() {
    let options = DisplayOptions { extra_display: Some("window:%p".into()), ..Default::default() };
    let mut display = display(DisplayOptions { progress: true, ..options });
    for second in 1..=3 {
        let line = display.draw(&at(second, second), 30);
        let title = display.extra(&at(second, second), 30).window_title;
        assert_eq!(title.as_ref(), Some(&line));
    }
    assert_eq!(display.rates.marker(), 6);
}

#[test]
fn what_is_on_the_disk_can_be_told_apart() {
    let mut display = formatted("%b %{durable}");
    assert_eq!(display.draw(&at(1, 2048), 80), "2.00KiB -");
    let moment = Moment { durable: Some(1024), ..at(2, 2048) };
    assert_eq!(display.draw(&moment, 80), "2.00KiB 1.00KiB");
}

#[test]
fn bits_are_bits_in_the_summary_too() {
    let mut bits = display(DisplayOptions { stats: true, bits: true, ..Default::default() });
    bits.draw(&at(1, 10), 80);
    let line = "rate min/avg/max/mdev = 80.000/80.000/80.000/0.000 b/s";
    assert_eq!(bits.summary().as_deref(), Some(line));
    assert_eq!(display(DisplayOptions::default()).summary(), None);
}

#[test]
fn the_largest_numbers_are_drawn_like_any_others() {
    let options = DisplayOptions { average_rate: true, fineta: true, ..Default::default() };
    let mut display = display(DisplayOptions { progress: true, bytes: true, ..options });
    let elapsed = Duration::from_secs(u64::MAX);
    let moment = Moment { elapsed, size: Some(1), now: SystemTime::UNIX_EPOCH, ..at(0, u64::MAX) };
    let line = display.draw(&moment, 60);
    assert!(line.starts_with("16.0EiB (1.00  B/s) [="), "{line}");
    assert!(line.ends_with("] 100000% FIN 00:00:00"), "{line}");
}

#[test]
fn options_change_in_the_middle_and_what_was_learnt_stays() {
    let mut display = display(DisplayOptions { rate: true, stats: true, ..Default::default() });
    display.draw(&at(1, 100), 80);
    display.draw(&at(2, 400), 80);
    let options = DisplayOptions { rate: true, bits: true, stats: true, ..Default::default() };
    display.change(&options).expect("options");
    assert_eq!(display.draw(&at(3, 500), 80), "3.91Kib [ 800  b/s]");
    let line = "rate min/avg/max/mdev = 800.000/1333.333/2400.000/754.247 b/s";
    assert_eq!(display.summary().as_deref(), Some(line));
    let wrong = DisplayOptions { format: vec!["%99999999p".into()], ..Default::default() };
    assert!(display.change(&wrong).is_err());
    assert_eq!(display.draw(&at(3, 500), 80), "3.91Kib [ 800  b/s]");
}

#[test]
fn a_width_that_no_terminal_has_is_cut_to_one_that_takes_no_memory() {
    let options = DisplayOptions { progress: true, width: Some(usize::MAX), ..Default::default() };
    let mut bar = display(options);
    assert_eq!(bar.draw(&at(1, 9), usize::MAX).len(), COLUMNS_MAX);
    let options = DisplayOptions { last_written: Some(usize::MAX), ..Default::default() };
    assert_eq!(display(options).draw(&at(1, 9), 80).len(), COLUMNS_MAX);
}
