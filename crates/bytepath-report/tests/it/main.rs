//! The record from the outside: as JSON, as CSV, as a table, and against its published schema.

mod csv;
mod json;
mod sample;
mod schema;
mod table;
