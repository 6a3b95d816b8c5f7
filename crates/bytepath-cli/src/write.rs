//! `bytepath write`: the writing end of a pipe, by any outlet.

use std::os::fd::AsFd;

use anyhow::{Context, bail};
use bytepath::outlets::{Buffers, Fresh, Outlet, Use};
use bytepath::{Endpoint, Kind};
use bytepath_lab::ends::WriteEnd;
use clap::Args;

use crate::ends::{self, End, NO_BUFFERS, Shared, Useful};
use crate::sys::start;
use crate::usage::wrong_usage;
use crate::{output, values};

/// Write into a pipe as fast as it takes it, until the reader is gone
///
/// Takes every option of the published program pair of the same names (in either spelling,
/// --buf-size or --buf_size), and joins any program: bytepath write --bytes-to-pipe 1G | wc -c.
#[derive(Args)]
pub(crate) struct Options {
    /// How to write
    #[arg(long, value_name = "OUTLET", value_parser = values::outlets(), conflicts_with = "write_with_vmsplice")]
    outlet: Option<&'static dyn Outlet>,
    /// How the outlet gift comes by fresh pages: discard, remap, populate
    #[arg(long, value_name = "WAY", value_parser = values::fresh)]
    fresh: Option<Fresh>,
    #[command(flatten)]
    shared: Shared,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let shared = &options.shared;
    shared.check()?;
    check(options)?;
    ends::end_with(shared.starter)?;
    if shared.json_alone() {
        return Err(wrong_usage("the writer's standard output is the pipe: give --json a file"));
    }
    if start::was_closed(1) {
        bail!("standard output is closed; was it redirected with >&-?");
    }
    let stdout = std::io::stdout();
    refuse_endless(shared, Endpoint::sink(stdout.as_fd())?.kind())?;
    output::beside_data(&[("--json", shared.json.as_deref())]).map_err(wrong_usage)?;
    let output = shared.output()?;
    let report = end(options)?.run(stdout.as_fd())?;
    shared.say(&report);
    ends::save(&report, "outlet", output)
}

/// Refuses to write without end into what never has enough.
fn refuse_endless(shared: &Shared, sink: Kind) -> anyhow::Result<()> {
    let into = match sink {
        _ if shared.bytes_to_pipe.is_some() || shared.time.is_some() => return Ok(()),
        Kind::File | Kind::BlockDevice | Kind::Terminal => format!("a {sink}"),
        Kind::Null => "/dev/null".to_owned(),
        _ => return Ok(()),
    };
    Err(wrong_usage(format!(
        "nothing would end the writing into {into}: give --bytes-to-pipe or --time, or pipe it into \
         a program"
    )))
}

/// Refuses options that have no effect here.
fn check(options: &Options) -> anyhow::Result<()> {
    let (shared, outlet) = (&options.shared, outlet(options)?);
    let has_buffers = outlet.used_for() == Use::Streams;
    let is_one_of = |names: &[&str]| names.contains(&outlet.name());
    let ours = [Useful {
        option: "--fresh",
        given: options.fresh.is_some(),
        has_effect: is_one_of(&["gift"]),
        about: "it says how the outlet gift comes by fresh pages; add --outlet gift",
    }];
    let published = [
        Useful {
            option: "--gift",
            given: shared.gift,
            has_effect: is_one_of(&["vmsplice", "gift"]),
            about: "it is a flag of vmsplice(2), which the outlets vmsplice and gift call",
        },
        Useful {
            option: "--same-buffer",
            given: shared.same_buffer,
            has_effect: is_one_of(&["vmsplice"]),
            about: "it is about the two buffers of the outlet vmsplice",
        },
        Useful {
            option: "--buf-size",
            given: shared.buf_size.is_some(),
            has_effect: has_buffers,
            about: NO_BUFFERS,
        },
        Useful {
            option: "--dont-touch-pages",
            given: shared.dont_touch_pages,
            has_effect: !shared.verify,
            about: "--verify writes a pattern into all pages",
        },
    ];
    let name = format!("the outlet {}", outlet.name());
    ends::refuse_without_effect(&name, &ours)?;
    if options.outlet.is_none() {
        return Ok(());
    }
    ends::refuse_without_effect(&name, &published)?;
    ends::refuse_without_effect(&name, &shared.page_options(has_buffers))
}

fn outlet(options: &Options) -> anyhow::Result<&'static dyn Outlet> {
    let named = if options.shared.write_with_vmsplice { "vmsplice" } else { "write" };
    options.outlet.or_else(|| bytepath::outlets::by_name(named)).context("no outlet")
}

fn end(options: &Options) -> anyhow::Result<WriteEnd> {
    let shared = &options.shared;
    Ok(WriteEnd {
        outlet: outlet(options)?,
        buf_bytes: shared.buf_bytes(),
        pipe_bytes: shared.pipe_size,
        pages: shared.pages(),
        check_huge: shared.check_huge_page,
        buffers: if shared.same_buffer { Buffers::Together } else { Buffers::Apart },
        gift_flag: shared.gift,
        fresh: options.fresh.unwrap_or_default(),
        untouched: shared.dont_touch_pages,
        verify: shared.verify,
        wait: shared.wait(),
        cpu: shared.cpu(End::Writer)?,
        bytes: shared.bytes_to_pipe,
        time: shared.time,
        interrupted: shared.starter.is_none(),
    })
}
