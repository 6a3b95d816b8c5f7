//! Copies of files and trees as work: where they are made ([`ground`]), what is copied
//! ([`material`]), who copies ([`copiers`]), and one sample of it ([`work`]).

pub mod copiers;
pub mod ground;
pub mod material;
pub mod work;
