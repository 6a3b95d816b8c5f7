//! Where the time of a movement went: samples and counters while it runs, and what they say in words.
