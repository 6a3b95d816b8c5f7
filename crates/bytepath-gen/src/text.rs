//! Text that reads a little like prose: sentences of common words, in lines.
//!
//! A few thousand sentences are made once, their words drawn as often as words occur (the n-th most
//! common one 1/n as often: Zipf's law); the stream is a random succession of them. A page of the
//! stream begins with a sentence and ends with a line, so that any page can be made by itself.

use std::sync::Arc;

use crate::{Generator, Random};

/// Bytes of a page: from a multiple of it on, the stream does not depend on what was before.
const PAGE_BYTES: usize = 64 << 10;

/// Sentences to choose from: as many as stay in a CPU's own cache.
const SENTENCES: usize = 2048;

/// A line is broken after a sentence that goes beyond this.
const LINE_BYTES: usize = 60;

/// The words, the most common first.
const WORDS: &[&str] = &[
    "the",
    "of",
    "and",
    "to",
    "a",
    "in",
    "is",
    "it",
    "that",
    "was",
    "for",
    "on",
    "are",
    "with",
    "as",
    "they",
    "be",
    "at",
    "one",
    "have",
    "this",
    "from",
    "or",
    "had",
    "by",
    "but",
    "some",
    "what",
    "there",
    "we",
    "can",
    "out",
    "other",
    "were",
    "all",
    "your",
    "when",
    "up",
    "use",
    "word",
    "how",
    "said",
    "each",
    "which",
    "their",
    "time",
    "will",
    "way",
    "about",
    "many",
    "then",
    "them",
    "would",
    "write",
    "like",
    "so",
    "these",
    "her",
    "long",
    "make",
    "thing",
    "see",
    "him",
    "two",
    "has",
    "look",
    "more",
    "day",
    "could",
    "go",
    "come",
    "did",
    "my",
    "sound",
    "no",
    "most",
    "number",
    "who",
    "over",
    "know",
    "water",
    "than",
    "call",
    "first",
    "people",
    "may",
    "down",
    "side",
    "been",
    "now",
    "find",
    "any",
    "new",
    "work",
    "part",
    "take",
    "get",
    "place",
    "made",
    "live",
    "where",
    "after",
    "back",
    "little",
    "only",
    "round",
    "man",
    "year",
    "came",
    "show",
    "every",
    "good",
    "me",
    "give",
    "our",
    "under",
    "name",
    "very",
    "through",
    "just",
    "form",
    "much",
    "great",
    "think",
    "say",
    "help",
    "low",
    "line",
    "before",
    "turn",
    "cause",
    "same",
    "mean",
    "differ",
    "move",
    "right",
    "boy",
    "old",
    "too",
    "does",
    "tell",
    "sentence",
    "set",
    "three",
    "want",
    "air",
    "well",
    "also",
    "play",
    "small",
    "end",
    "put",
    "home",
    "read",
    "hand",
    "port",
    "large",
    "spell",
    "add",
    "even",
    "land",
    "here",
    "must",
    "big",
    "high",
    "such",
    "follow",
    "act",
    "why",
    "ask",
    "men",
    "change",
    "went",
    "light",
    "kind",
    "off",
    "need",
    "house",
    "picture",
    "try",
    "us",
    "again",
    "animal",
    "point",
    "mother",
    "world",
    "near",
    "build",
    "self",
    "earth",
    "father",
    "pipe",
    "buffer",
    "kernel",
    "page",
    "copy",
    "measure",
    "memory",
    "machine",
    "reader",
    "writer",
    "descriptor",
    "bytes",
];

/// See the module.
#[derive(Debug, Clone)]
pub struct Text {
    random: Random,
    sentences: Arc<Sentences>,
    /// The page made last, and the bytes that it ran over by are cut.
    page: Vec<u8>,
    made: Option<u64>,
}

#[derive(Debug)]
struct Sentences {
    text: Vec<u8>,
    /// Where each begins, and where the last ends.
    begins: Vec<u32>,
}

impl Text {
    /// The text of this seed.
    pub fn new(seed: u64) -> Text {
        let random = Random::new(seed);
        Text { random, sentences: Arc::new(Sentences::new(random)), page: Vec::new(), made: None }
    }

    /// Fills a whole page.
    fn whole(&self, page: u64, into: &mut [u8]) {
        // Words behind those that the sentences were made of; two choices a word.
        let mut index = (1 << 40) + page * (PAGE_BYTES as u64 / 32);
        let (mut at, mut line, mut drawn) = (0, 0, 0u64);
        loop {
            if drawn == 0 {
                drawn = self.random.word(index) | 1 << 63;
                index += 1;
            }
            let sentence = self.sentences.of(drawn as usize % SENTENCES);
            drawn >>= SENTENCES.ilog2();
            // What is left of the draw once its mark has come down is no choice.
            if drawn < SENTENCES as u64 {
                drawn = 0;
            }
            let end = at + sentence.len();
            if end >= into.len() {
                let left = into.len() - at;
                into[at..].copy_from_slice(&sentence[..left]);
                break;
            }
            into[at..end].copy_from_slice(sentence);
            line += sentence.len();
            if line > LINE_BYTES {
                into[end - 1] = b'\n';
                line = 0;
            }
            at = end;
        }
        if let Some(last) = into.last_mut() {
            *last = b'\n';
        }
    }
}

impl Sentences {
    fn new(random: Random) -> Sentences {
        let mut draws = (0..).map(|index| random.word(index));
        let mut draw = |below: u64| draws.next().expect("there is no end") % below;
        let (mut text, mut begins) = (Vec::new(), vec![0]);
        let shares: Vec<u64> = zipf().collect();
        let all = *shares.last().expect("there are words");
        for _ in 0..SENTENCES {
            let begin = text.len();
            let words = 4 + draw(14);
            let comma = draw(24);
            for place in 0..words {
                let share = draw(all);
                let word = WORDS[shares.partition_point(|&until| until <= share)];
                text.extend_from_slice(word.as_bytes());
                text.extend_from_slice(if place == comma && place + 1 < words {
                    b", "
                } else {
                    b" "
                });
            }
            text[begin].make_ascii_uppercase();
            let end = text.len() - 1;
            text[end] = *b"....?!".get(draw(6) as usize).unwrap_or(&b'.');
            text.push(b' ');
            begins.push(text.len() as u32);
        }
        Sentences { text, begins }
    }

    fn of(&self, index: usize) -> &[u8] {
        &self.text[self.begins[index] as usize..self.begins[index + 1] as usize]
    }
}

/// Up to which number each word is drawn.
fn zipf() -> impl Iterator<Item = u64> {
    (1..=WORDS.len() as u64).scan(0, |sum, rank| {
        *sum += 1_000_000 / rank;
        Some(*sum)
    })
}

impl Generator for Text {
    fn fill(&mut self, offset: u128, into: &mut [u8]) -> usize {
        let all = into.len();
        let (mut page, mut skip) =
            ((offset / PAGE_BYTES as u128) as u64, (offset % PAGE_BYTES as u128) as usize);
        let mut rest = into;
        while !rest.is_empty() {
            let count = rest.len().min(PAGE_BYTES - skip);
            let (now, later) = rest.split_at_mut(count);
            if count == PAGE_BYTES {
                self.whole(page, now);
            } else {
                if self.made != Some(page) {
                    let mut made = std::mem::take(&mut self.page);
                    made.resize(PAGE_BYTES, 0);
                    self.whole(page, &mut made);
                    (self.page, self.made) = (made, Some(page));
                }
                now.copy_from_slice(&self.page[skip..skip + count]);
            }
            (page, skip, rest) = (page + 1, 0, later);
        }
        all
    }

    fn another(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(seed: u64, from: usize, len: usize) -> String {
        let mut bytes = vec![0; len];
        Text::new(seed).fill(from as u128, &mut bytes);
        String::from_utf8(bytes).expect("words are ASCII")
    }

    #[test]
    fn it_is_lines_of_sentences_of_known_words() {
        let text = text(0, 0, 4 * PAGE_BYTES);
        assert!(text.lines().all(|line| line.len() < 400 && !line.is_empty()));
        let known = |word: &str| WORDS.contains(&word.to_lowercase().as_str());
        let words: Vec<_> = text
            .split_whitespace()
            .map(|word| word.trim_end_matches(['.', ',', '?', '!']))
            .collect();
        let strange = words.iter().filter(|word| !known(word)).count();
        // Only where a page cuts a word.
        assert!(strange <= 4, "{strange} of {}", words.len());
        let first = text.lines().next().expect("a line");
        let twice = text.lines().filter(|line| *line == first).count();
        assert!(twice < 20, "{first:?} comes {twice} times");
    }

    #[test]
    fn a_stream_is_the_same_from_any_byte_on_and_another_for_another_seed() {
        let whole = text(3, 0, 3 * PAGE_BYTES);
        let mut stream = Text::new(3);
        for (from, len) in
            [(0, 1), (1, 70_000), (PAGE_BYTES - 1, 2), (PAGE_BYTES, PAGE_BYTES), (100_001, 9)]
        {
            let mut piece = vec![0; len];
            stream.fill(from as u128, &mut piece);
            assert!(piece == whole.as_bytes()[from..from + len], "{len} from {from}");
        }
        assert_ne!(text(4, 0, 3 * PAGE_BYTES), whole);
    }
}
