//! What several targets need: things that can be told from each other, and what must hold of what is read.

pub mod answer;
pub mod reading;
pub mod wanted;
