//! One of the two processes of a sample: it begins, or it answers what comes (latency), or takes it
//! (throughput).

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytepath::channel::{Address, Connection, Listener};
use bytepath::placement::pin_this_thread;
use bytepath_lab::ends::{EndReport, Starter, Usage};
use bytepath_lab::trips::TripReport;
use bytepath_report::latency;
use clap::{Args, ValueEnum};

use crate::content::{END, MARK, WORD_BYTES, expected};
use crate::media::{Has, In, Medium, Out, Setup, Wait, ends};

#[derive(Args)]
pub(crate) struct Options {
    role: Role,
    #[arg(long)]
    medium: Medium,
    #[arg(long)]
    wait: Wait,
    #[arg(long)]
    size: usize,
    #[arg(long)]
    name: String,
    #[arg(long)]
    cpu: usize,
    /// Both ends have this CPU.
    #[arg(long)]
    shares_cpu: bool,
    #[arg(long, value_parser = micros)]
    time: Duration,
    #[arg(long, value_parser = micros)]
    warm_up: Duration,
    #[arg(long, value_parser = starter)]
    starter: Starter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Sends, and waits for the answer.
    Begin,
    /// Answers.
    Answer,
    /// Sends one after the other.
    Send,
    /// Takes them.
    Take,
}

/// How long an end waits for the other one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

fn micros(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_micros)
}

fn starter(text: &str) -> Result<Starter, String> {
    text.parse().ok().and_then(Starter::numbered).ok_or_else(|| "no process".to_owned())
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    ensure!(options.starter.end_together()?, "the process that started this is gone");
    ensure!(
        options.size > 0 && options.size.is_multiple_of(WORD_BYTES),
        "messages are whole words"
    );
    pin_this_thread(options.cpu)?.keep();
    let setup = Setup {
        wait: options.wait,
        shares_cpu: options.shares_cpu,
        words: options.size / WORD_BYTES,
        name: options.name.clone(),
    };
    let both = matches!(options.role, Role::Begin | Role::Answer);
    let begins = matches!(options.role, Role::Begin | Role::Send);
    let has = Has { out: both || begins, back: both || !begins, begins };
    let (out, back) = ends(options.medium, &setup, has)?;
    let out = out.context("an end that sends");
    let back = back.context("an end that receives");
    both_ready(&options.name, begins)?;
    match options.role {
        Role::Begin => said(&begin(&mut *out?, &mut *back?, options)?),
        Role::Answer => answer(&mut *out?, &mut *back?, options),
        Role::Send => send(&mut *out?, options),
        Role::Take => said(&take(&mut *back?, options)?),
    }
}

/// Waits until the other end is ready as well: the one that begins finds nobody until then.
fn both_ready(name: &str, begins: bool) -> anyhow::Result<()> {
    let address = Address::parse(format!("@{name}-ready"))?;
    match begins {
        true => drop(Connection::connect(&address, PATIENCE)?),
        false => drop(Listener::bind(&address)?.accept()?),
    }
    Ok(())
}

fn said(report: &impl serde::Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(report)?);
    Ok(())
}

/// The number of a message, every word of which is as it should be.
#[inline]
fn whole((number, sum): (u64, u64), options: &Options) -> anyhow::Result<u64> {
    ensure!(sum == expected(number, options.size / WORD_BYTES), "other bytes came than were sent");
    Ok(number)
}

fn begin(out: &mut dyn Out, back: &mut dyn In, options: &Options) -> anyhow::Result<TripReport> {
    let mut number = 0;
    let mut trips = |time: Duration| -> anyhow::Result<_> {
        let (mut histogram, began) = (latency::empty(), Instant::now());
        let mut before = began;
        while before - began < time {
            number += 1;
            out.send(number)?;
            let came = whole(back.receive()?, options)?;
            ensure!(came == number, "message {came} came for {number}");
            let now = Instant::now();
            histogram.saturating_record((now - before).as_nanos() as u64);
            before = now;
        }
        Ok((histogram, began.elapsed()))
    };
    trips(options.warm_up)?;
    let before = Usage::of_this_process();
    let (histogram, took) = trips(options.time)?;
    let usage = Usage::of_this_process().since(before);
    out.send(END)?;
    // Its answer: the other end has nothing left to say.
    whole(back.receive()?, options)?;
    Ok(TripReport {
        trips: histogram.len(),
        seconds: took.as_secs_f64(),
        histogram: latency::encoded(&histogram)?,
        usage,
    })
}

fn answer(out: &mut dyn Out, back: &mut dyn In, options: &Options) -> anyhow::Result<()> {
    loop {
        let number = whole(back.receive()?, options)?;
        out.send(number)?;
        if number == END {
            return until_let_go();
        }
    }
}

/// Bytes between two looks at the clock, and messages at the most.
const UNTIMED_BYTES: usize = 64 << 10;
const UNTIMED: usize = 1024;

fn send(out: &mut dyn Out, options: &Options) -> anyhow::Result<()> {
    let mut number = 0;
    let untimed = (UNTIMED_BYTES / options.size).clamp(1, UNTIMED);
    for (time, says) in [(options.warm_up, MARK), (options.time, END)] {
        let began = Instant::now();
        while began.elapsed() < time {
            for _ in 0..untimed {
                number += 1;
                out.send(number)?;
            }
        }
        out.send(says)?;
    }
    until_let_go()
}

fn take(back: &mut dyn In, options: &Options) -> anyhow::Result<EndReport> {
    let mut number = 0;
    let mut taken = |until: u64| -> anyhow::Result<u64> {
        let before = number;
        loop {
            let came = whole(back.receive()?, options)?;
            if came == until {
                return Ok(number - before);
            }
            number += 1;
            ensure!(came == number, "message {came} came for {number}");
        }
    };
    taken(MARK)?;
    let (began, before) = (Instant::now(), Usage::of_this_process());
    let messages = taken(END)?;
    Ok(EndReport {
        bytes: messages * options.size as u64,
        seconds: began.elapsed().as_secs_f64(),
        usage: Usage::of_this_process().since(before),
        touched: true,
        ..EndReport::default()
    })
}

/// Stays until the starter closes the standard input: an end that leaves takes its memory with it.
fn until_let_go() -> anyhow::Result<()> {
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}
