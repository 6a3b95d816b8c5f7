//! Fills memory with the lines of a template, digits set in.
//!
//! Per 32 bytes with AVX2: one load of the template, one shuffle that fetches the digits (or 0 where
//! the template has a character), one subtraction that turns places and characters into what is
//! written, one store. Which digits a register takes changes once a segment, within a register: the
//! few at the border are made from both sides, without a branch, as a branch that depends on where
//! the border falls would be guessed wrong every time. Counting up is one addition of the digits as
//! one large number, with 246 added to each: then 10 overflows into the next. The idea of digits that
//! carry by themselves, and of a template that is both text and shuffle, is known from the FizzBuzz
//! programs published since 2021.
//!
//! Other processors do the same byte by byte.

#![allow(unsafe_code)]

use crate::counted::template::{DIGITS, SEGMENTS, Template};

/// Bytes of a register.
#[cfg(target_arch = "x86_64")]
const WIDE: usize = 32;

/// Added to a digit, so that a tenth makes the byte overflow.
const BIAS: u8 = 246;

/// Digits of a number's segment, the lowest first, each with [`BIAS`] added.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Digits {
    /// Those that are counted up.
    low: u64,
    /// Those that are not.
    high: u64,
}

impl Digits {
    /// How many digits are counted up: further ones need digits made anew.
    pub(crate) const COUNTED: u32 = 8;

    /// Those of a number.
    pub(crate) fn of(number: u64) -> Digits {
        let mut bytes = [0; DIGITS];
        let mut left = number;
        for byte in &mut bytes {
            *byte = BIAS + (left % 10) as u8;
            left /= 10;
        }
        let half = |at: usize| {
            u64::from_le_bytes(bytes[at..at + 8].try_into().expect("half of sixteen bytes"))
        };
        Digits { low: half(0), high: half(8) }
    }

    /// Those of the number that follows, but for a carry out of the lowest eight.
    fn next(self) -> Digits {
        let sum = self.low.wrapping_add(1).to_le_bytes();
        Digits { low: u64::from_le_bytes(sum.map(|byte| byte.max(BIAS))), ..self }
    }

    /// As the shuffle takes them: the characters, with their place added.
    fn shown(self) -> [u8; DIGITS] {
        let mut bytes = [0; DIGITS];
        bytes[..8].copy_from_slice(&self.low.to_le_bytes());
        bytes[8..].copy_from_slice(&self.high.to_le_bytes());
        for (place, byte) in (0..).zip(&mut bytes) {
            *byte = byte.wrapping_sub(BIAS).wrapping_add(b'0' + place);
        }
        bytes
    }
}

/// A place in the lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Which segment of the template.
    pub(crate) segment: usize,
    /// The next byte of the template.
    pub(crate) at: usize,
    /// The segment's digits.
    pub(crate) digits: Digits,
}

impl Place {
    /// Into the next segment, if this one is at its end.
    fn turn(&mut self, ends: &[usize; SEGMENTS]) {
        if self.at >= ends[self.segment] {
            self.segment += 1;
            self.digits = self.digits.next();
            if self.segment == SEGMENTS {
                (self.segment, self.at) = (0, self.at - ends[SEGMENTS - 1]);
            }
        }
    }
}

/// Fills all of `into`. The caller sees to it that no digit beyond the eighth changes on the way.
pub(crate) fn fill(template: &Template, place: &mut Place, into: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // The stores of the loop are aligned.
        let head = into.as_ptr().align_offset(WIDE).min(into.len());
        let (head, rest) = into.split_at_mut(head);
        let (body, tail) = rest.split_at_mut(rest.len() / WIDE * WIDE);
        bytewise(template, place, head);
        // SAFETY: the processor has AVX2.
        unsafe { avx2::fill(template, place, body) };
        return bytewise(template, place, tail);
    }
    bytewise(template, place, into);
}

/// The same on any processor.
fn bytewise(template: &Template, place: &mut Place, into: &mut [u8]) {
    let (codes, ends) = (template.codes(), template.ends());
    let mut rest = into;
    while !rest.is_empty() {
        place.turn(&ends);
        let count = rest.len().min(ends[place.segment] - place.at);
        let (now, later) = rest.split_at_mut(count);
        let shown = place.digits.shown();
        for (byte, &code) in now.iter_mut().zip(&codes[place.at..]) {
            let found = if code < 0 { 0 } else { shown[code as usize] };
            *byte = found.wrapping_sub(code as u8);
        }
        place.at += count;
        rest = later;
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{BIAS, Digits, Place, WIDE};
    use crate::counted::template::{SEGMENTS, Template};

    /// A window of 32 bytes that begins `32 - n` bytes in takes the first n from the first source.
    static FIRST: [u8; 2 * WIDE] = {
        let mut bytes = [0; 2 * WIDE];
        let mut at = 0;
        while at < WIDE {
            bytes[at] = 0xff;
            at += 1;
        }
        bytes
    };

    /// Fills whole registers of aligned memory.
    #[target_feature(enable = "avx2")]
    pub(super) fn fill(template: &Template, place: &mut Place, into: &mut [u8]) {
        assert!(into.len().is_multiple_of(WIDE));
        assert!(into.is_empty() || into.as_ptr().align_offset(WIDE) == 0);
        let ends = template.ends();
        let mut filling = Filling {
            codes: template.codes(),
            next: into.as_mut_ptr(),
            left: into.len() / WIDE,
            at: place.at,
            digits: counted(place.digits),
        };
        // How many registers surely lie within a segment, and those that it takes at most.
        let whole = |segment: usize| {
            let begins = if segment == 0 { 0 } else { ends[segment - 1] };
            (ends[segment] - begins - (WIDE - 1)) / WIDE
        };
        let mut segment = place.segment;
        loop {
            if filling.at >= ends[segment] {
                segment += 1;
                filling.digits = next(filling.digits);
                if segment == SEGMENTS {
                    segment = 0;
                    filling.at -= ends[SEGMENTS - 1];
                }
            }
            let begins = if segment == 0 { 0 } else { ends[segment - 1] };
            let whole = whole(segment);
            if filling.left < whole + 2 {
                break;
            }
            if filling.at - begins >= WIDE {
                // Begun within the segment: to its end register by register.
                filling.one(ends[segment]);
                continue;
            }
            filling.many(whole);
            filling.border(ends[segment]);
        }
        while filling.left > 0 {
            if filling.at >= ends[segment] {
                segment += 1;
                filling.digits = next(filling.digits);
                if segment == SEGMENTS {
                    segment = 0;
                    filling.at -= ends[SEGMENTS - 1];
                }
            }
            filling.one(ends[segment]);
        }
        *place = Place { segment, at: filling.at, digits: uncounted(filling.digits, place.digits) };
    }

    /// Where the loop stands.
    struct Filling<'a> {
        codes: &'a [i8],
        next: *mut u8,
        /// Registers.
        left: usize,
        at: usize,
        digits: __m128i,
    }

    impl Filling<'_> {
        /// Registers within a segment.
        #[inline]
        #[target_feature(enable = "avx2")]
        fn many(&mut self, count: usize) {
            let digits = shown(self.digits);
            let mut index = 0;
            while index + 4 <= count {
                for step in index..index + 4 {
                    let codes = self.codes(step);
                    self.store(step, _mm256_sub_epi8(_mm256_shuffle_epi8(digits, codes), codes));
                }
                index += 4;
            }
            for step in index..count {
                let codes = self.codes(step);
                self.store(step, _mm256_sub_epi8(_mm256_shuffle_epi8(digits, codes), codes));
            }
            self.advance(count);
        }

        /// The registers in which a segment ends, at most two: written both, and gone on from after
        /// the last that holds something of it.
        #[inline]
        #[target_feature(enable = "avx2")]
        fn border(&mut self, end: usize) {
            let (now, then) = (shown(self.digits), shown(next(self.digits)));
            let rest = end - self.at;
            self.blended(0, rest.min(WIDE), now, then);
            self.blended(1, rest.saturating_sub(WIDE), now, then);
            self.advance(rest.div_ceil(WIDE));
        }

        /// One register, wherever it lies.
        #[inline]
        #[target_feature(enable = "avx2")]
        fn one(&mut self, end: usize) {
            let (now, then) = (shown(self.digits), shown(next(self.digits)));
            self.blended(0, (end - self.at).min(WIDE), now, then);
            self.advance(1);
        }

        /// A register whose first bytes have the one set of digits and whose others the other.
        #[inline]
        #[target_feature(enable = "avx2")]
        fn blended(&mut self, index: usize, first: usize, now: __m256i, then: __m256i) {
            let codes = self.codes(index);
            let mask = load(FIRST[WIDE - first..][..WIDE].as_ptr());
            let now = _mm256_shuffle_epi8(now, codes);
            let then = _mm256_shuffle_epi8(then, codes);
            let found = _mm256_blendv_epi8(then, now, mask);
            self.store(index, _mm256_sub_epi8(found, codes));
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        fn codes(&self, index: usize) -> __m256i {
            let at = self.at + index * WIDE;
            debug_assert!(at + WIDE <= self.codes.len());
            load(self.codes.as_ptr().wrapping_add(at).cast())
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        fn store(&mut self, index: usize, text: __m256i) {
            debug_assert!(index < self.left);
            let to = self.next.wrapping_add(index * WIDE).cast();
            // SAFETY: `left` registers of exclusively borrowed, aligned memory follow `next`, and
            // `index` is below that: callers look at `left` first.
            unsafe { _mm256_store_si256(to, text) };
        }

        #[inline]
        fn advance(&mut self, count: usize) {
            self.at += count * WIDE;
            self.next = self.next.wrapping_add(count * WIDE);
            self.left -= count;
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(from: *const u8) -> __m256i {
        // SAFETY: callers point into a slice that has 32 bytes from there on; it need not be aligned.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn counted(digits: Digits) -> __m128i {
        _mm_set_epi64x(digits.high as i64, digits.low as i64)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn uncounted(digits: __m128i, before: Digits) -> Digits {
        Digits { low: _mm_cvtsi128_si64(digits) as u64, ..before }
    }

    /// The digits of the next segment.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn next(digits: __m128i) -> __m128i {
        let one = _mm_set_epi64x(0, 1);
        _mm_max_epu8(_mm_add_epi64(digits, one), _mm_set1_epi8(BIAS as i8))
    }

    /// As the shuffle takes them, in both halves.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn shown(digits: __m128i) -> __m256i {
        let places = _mm_set_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        let zero = _mm_set1_epi8(b'0'.wrapping_sub(BIAS) as i8);
        _mm256_broadcastsi128_si256(_mm_add_epi8(digits, _mm_add_epi8(places, zero)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counted::Rule;
    use crate::counted::template::Key;

    #[test]
    fn every_processor_gives_the_same_bytes() {
        for rule in [Rule::Plain, Rule::FizzBuzz] {
            for segment in [10, 99_999_000, 123_456_789, 99_999_999_999_000_000] {
                let template = Template::new(Key::of(rule, segment));
                let in_cycle = (segment % SEGMENTS as u64) as usize;
                let at = if in_cycle == 0 { 0 } else { template.ends()[in_cycle - 1] };
                let place = Place { segment: in_cycle, at, digits: Digits::of(segment) };
                let (mut wide, mut narrow) = (place, place);
                for len in [5, 64, 7000, 31, 100_000] {
                    let (mut one, mut other) = (vec![0; len], vec![0; len]);
                    fill(&template, &mut wide, &mut one);
                    bytewise(&template, &mut narrow, &mut other);
                    assert!(one == other, "{rule:?} from segment {segment}, {len} bytes");
                }
            }
        }
    }
}
