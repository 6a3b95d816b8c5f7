//! How bytepath measures: experiments and their arms, the schedule, the statistics, the noise.
//!
//! An [`experiments`] file makes [`arm`]s; [`lab`] runs them block by block by [`schedule`], each
//! sample in processes of its own ([`pipe_work`], [`ends`]), watching for [`noise`]; [`stats`] judge
//! what came; the result is a [`bytepath_report::Record`].

pub mod arm;
pub mod call_work;
pub mod calls;
pub mod carry_work;
pub mod clock;
pub mod cmd_work;
pub mod copies;
pub mod devices;
pub mod doctor;
pub mod drive;
pub mod drive_work;
pub mod ends;
pub mod experiments;
pub mod facts;
pub mod file_set;
pub mod import;
pub mod interrupt;
pub mod lab;
pub mod left;
pub mod noise;
pub mod pair_work;
pub mod pass_work;
pub mod passing;
pub mod peers;
pub mod pipe_work;
mod run_work;
pub mod schedule;
pub mod stats;
pub mod trip_work;
pub mod trips;
pub mod tune;
