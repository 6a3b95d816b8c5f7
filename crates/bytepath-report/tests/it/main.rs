//! The record from the outside: as JSON, as CSV, as a table, and against its published schema.

mod answer;
mod csv;
mod json;
mod page;
mod sample;
mod schema;
mod table;
