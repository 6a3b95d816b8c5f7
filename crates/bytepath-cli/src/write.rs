//! `bytepath write`: the writing end of a pipe, by any outlet.

use std::os::fd::AsFd;

use anyhow::Context;
use bytepath::outlets::{Buffers, Fresh, Outlet};
use bytepath::{Endpoint, Kind};
use bytepath_lab::ends::WriteEnd;
use clap::Args;

use crate::ends::{self, End, Shared};
use crate::{values, wrong_usage};

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
    ends::end_with(shared.starter)?;
    if shared.json_alone() {
        return Err(wrong_usage("the writer's standard output is the pipe: give --json a file"));
    }
    let stdout = std::io::stdout();
    let endless = shared.bytes_to_pipe.is_none() && shared.time.is_none();
    let sink = Endpoint::sink(stdout.as_fd())?.kind();
    if endless && matches!(sink, Kind::File | Kind::BlockDevice | Kind::Terminal) {
        return Err(wrong_usage(format!(
            "nothing would end the writing into a {sink}: give --bytes-to-pipe or --time, or pipe \
             it into a program"
        )));
    }
    let output = shared.output()?;
    let report = end(options)?.run(stdout.as_fd())?;
    shared.say(&report);
    ends::save(&report, output)
}

fn end(options: &Options) -> anyhow::Result<WriteEnd> {
    let shared = &options.shared;
    let named = if shared.write_with_vmsplice { "vmsplice" } else { "write" };
    let outlet = options.outlet.or_else(|| bytepath::outlets::by_name(named));
    Ok(WriteEnd {
        outlet: outlet.context("no outlet")?,
        buf_bytes: shared.buf_size,
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
    })
}
