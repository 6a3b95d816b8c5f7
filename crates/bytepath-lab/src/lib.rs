//! How bytepath measures: experiments and their arms, the schedule, the statistics, the noise.
//!
//! An [`experiments`] file makes [`arm`]s; [`lab`] runs them block by block by [`schedule`], each
//! sample in processes of its own ([`pipe_work`], [`ends`]), watching for [`noise`]; [`stats`] judge
//! what came; the result is a [`bytepath_report::Record`].

pub mod arm;
pub mod call_work;
pub mod calls;
pub mod carry_work;
mod cgroups;
pub mod clock;
mod clocked;
pub mod cmd_work;
pub mod compare;
pub mod confine;
pub mod copies;
pub mod descendants;
pub mod devices;
pub mod doctor;
pub mod drive;
pub mod drive_work;
pub mod ends;
pub mod experiments;
pub mod facts;
pub mod fget;
pub mod fget_work;
pub mod file_set;
pub mod hugetlb_pool;
pub mod import;
pub mod interrupt;
pub mod keepalive;
mod kept_settings;
pub mod lab;
pub mod left;
pub mod memory;
pub mod memory_work;
pub mod noise;
pub mod page_map;
pub mod pair_work;
pub mod pass_work;
pub mod passing;
pub mod peers;
pub mod pipe_work;
pub mod program;
mod run_work;
pub mod store;
pub mod stream_work;
pub mod streams;
pub mod swap;
mod sys;
mod threads;
pub mod to_the_end;
mod tools;
pub mod touches;
pub mod trip_work;
pub mod trips;
pub mod tune;
mod two_ends;

pub use bytepath_stats::{self as stats, schedule};
pub use sys::{interval, scheduling};
