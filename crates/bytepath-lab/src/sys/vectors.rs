//! Sweeps over memory by instructions that not every x86-64 CPU has, or that go past the caches.
//!
//! Each is called only where its CPU feature was found, which the callers' `usable` sees to; the
//! assertions hold that up.
#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::{
    __m128i, __m256i, _mm_add_epi64, _mm_cvtsi128_si64, _mm_loadu_si128, _mm_set1_epi64x,
    _mm_setzero_si128, _mm_sfence, _mm_storeu_si128, _mm_stream_si128, _mm_unpackhi_epi64,
    _mm256_add_epi64, _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_loadu_si256,
    _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_storeu_si256, _mm256_xor_si256,
};

// What is written as words would be widened only by a compiler that optimises for speed, down to the
// linking; here the width is what is measured.

// AVX-512 is written in assembly: the language has it from Rust 1.89 on. Registers from the sixteenth on
// leave nothing behind that slows other instructions down: vzeroupper, which would change the
// first sixteen, is not needed.

/// Bytes that one round of the loops below moves.
const ROUND_BYTES: usize = 256;

/// Whether the CPU, and the kernel that keeps its registers, know AVX2.
pub(crate) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

/// Whether they know AVX-512.
pub(crate) fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
}

/// The sum of the words, 16 bytes at a time.
pub(crate) fn read_sse2(bytes: &[u8]) -> u64 {
    let (rounds, rest) = bytes.as_chunks::<16>().0.as_chunks::<4>();
    debug_assert!(rest.is_empty());
    let [mut a, mut b, mut c, mut d] = [sse2::zero(); 4];
    for [to_a, to_b, to_c, to_d] in rounds {
        a = sse2::add(a, load(to_a));
        b = sse2::add(b, load(to_b));
        c = sse2::add(c, load(to_c));
        d = sse2::add(d, load(to_d));
    }
    sse2::summed(sse2::add(sse2::add(a, b), sse2::add(c, d)))
}

/// Writes a word everywhere, 16 bytes at a time.
pub(crate) fn write_sse2(bytes: &mut [u8], value: u64) {
    let (rounds, rest) = bytes.as_chunks_mut::<16>().0.as_chunks_mut::<4>();
    debug_assert!(rest.is_empty());
    let both = sse2::both(value);
    for [a, b, c, d] in rounds {
        store(a, both);
        store(b, both);
        store(c, both);
        store(d, both);
    }
}

/// Instructions that every x86-64 CPU has; before Rust 1.89 they count as unsafe.
mod sse2 {
    #![allow(unused_unsafe, reason = "newer compilers know that these change nothing")]
    use super::{
        __m128i, _mm_add_epi64, _mm_cvtsi128_si64, _mm_set1_epi64x, _mm_setzero_si128,
        _mm_unpackhi_epi64,
    };

    #[inline(always)]
    pub(super) fn zero() -> __m128i {
        // SAFETY: every x86-64 CPU has it.
        unsafe { _mm_setzero_si128() }
    }

    #[inline(always)]
    pub(super) fn both(value: u64) -> __m128i {
        // SAFETY: every x86-64 CPU has it.
        unsafe { _mm_set1_epi64x(value.cast_signed()) }
    }

    #[inline(always)]
    pub(super) fn add(one: __m128i, other: __m128i) -> __m128i {
        // SAFETY: every x86-64 CPU has it.
        unsafe { _mm_add_epi64(one, other) }
    }

    /// The sum of both words.
    pub(super) fn summed(words: __m128i) -> u64 {
        // SAFETY: every x86-64 CPU has it.
        let high = unsafe { _mm_unpackhi_epi64(words, words) };
        // SAFETY: likewise.
        unsafe { _mm_cvtsi128_si64(add(words, high)) }.cast_unsigned()
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_wide(from: &[u8; 32]) -> __m256i {
    // SAFETY: the 32 bytes are readable; no alignment is needed.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_wide(to: &mut [u8; 32], value: __m256i) {
    // SAFETY: the 32 bytes are ours to write; no alignment is needed.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
}

#[target_feature(enable = "avx2")]
fn summed_by_avx2(bytes: &[u8]) -> u64 {
    let (rounds, rest) = bytes.as_chunks::<32>().0.as_chunks::<4>();
    debug_assert!(rest.is_empty());
    let [mut a, mut b, mut c, mut d] = [_mm256_setzero_si256(); 4];
    for [to_a, to_b, to_c, to_d] in rounds {
        a = _mm256_add_epi64(a, load_wide(to_a));
        b = _mm256_add_epi64(b, load_wide(to_b));
        c = _mm256_add_epi64(c, load_wide(to_c));
        d = _mm256_add_epi64(d, load_wide(to_d));
    }
    let all = _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d));
    sse2::summed(sse2::add(_mm256_castsi256_si128(all), _mm256_extracti128_si256::<1>(all)))
}

#[target_feature(enable = "avx2")]
fn written_by_avx2(bytes: &mut [u8], value: u64) {
    let (rounds, rest) = bytes.as_chunks_mut::<32>().0.as_chunks_mut::<4>();
    debug_assert!(rest.is_empty());
    let words = _mm256_set1_epi64x(value.cast_signed());
    for [a, b, c, d] in rounds {
        store_wide(a, words);
        store_wide(b, words);
        store_wide(c, words);
        store_wide(d, words);
    }
}

/// The compiler would know plain loads and stores for a copy of the library's: each goes through
/// an exclusive or with nothing.
#[target_feature(enable = "avx2")]
fn copied_by_avx2(from: &[u8], to: &mut [u8]) {
    let nothing = _mm256_set1_epi64x(std::hint::black_box(0));
    let from = from.as_chunks::<32>().0.as_chunks::<4>().0;
    let to = to.as_chunks_mut::<32>().0.as_chunks_mut::<4>().0;
    for ([from_a, from_b, from_c, from_d], [a, b, c, d]) in from.iter().zip(to) {
        store_wide(a, _mm256_xor_si256(load_wide(from_a), nothing));
        store_wide(b, _mm256_xor_si256(load_wide(from_b), nothing));
        store_wide(c, _mm256_xor_si256(load_wide(from_c), nothing));
        store_wide(d, _mm256_xor_si256(load_wide(from_d), nothing));
    }
}

/// The sum of the words, 32 bytes at a time.
pub(crate) fn read_avx2(bytes: &[u8]) -> u64 {
    assert!(has_avx2());
    // SAFETY: the CPU has AVX2, as was just asked.
    unsafe { summed_by_avx2(bytes) }
}

/// Writes a word everywhere, 32 bytes at a time.
pub(crate) fn write_avx2(bytes: &mut [u8], value: u64) {
    assert!(has_avx2());
    // SAFETY: the CPU has AVX2, as was just asked.
    unsafe { written_by_avx2(bytes, value) }
}

/// Copies, 32 bytes at a time.
pub(crate) fn copy_avx2(from: &[u8], to: &mut [u8]) {
    assert!(has_avx2());
    // SAFETY: the CPU has AVX2, as was just asked.
    unsafe { copied_by_avx2(from, to) }
}

/// How many rounds a loop of whole rounds makes.
fn rounds(len: usize) -> usize {
    assert!(len > 0 && len.is_multiple_of(ROUND_BYTES), "blocks are whole rounds");
    len / ROUND_BYTES
}

/// The exclusive or of the words, 64 bytes at a time.
pub(crate) fn read_avx512(bytes: &[u8]) -> u64 {
    assert!(has_avx512());
    let (rounds, mut found) = (rounds(bytes.len()), [0_u64; 8]);
    // SAFETY: the loop reads `rounds` times 256 bytes from the start of the slice, which has as
    // many, and writes the 64 bytes of `found`; every register that it changes is named.
    unsafe {
        asm!(
            "vpxorq zmm16, zmm16, zmm16",
            "2:",
            "vpxorq zmm16, zmm16, [{at}]",
            "vpxorq zmm16, zmm16, [{at} + 64]",
            "vpxorq zmm16, zmm16, [{at} + 128]",
            "vpxorq zmm16, zmm16, [{at} + 192]",
            "add {at}, 256",
            "dec {rounds}",
            "jnz 2b",
            "vmovdqu64 [{found}], zmm16",
            at = inout(reg) bytes.as_ptr() => _,
            rounds = inout(reg) rounds => _,
            found = in(reg) found.as_mut_ptr(),
            out("zmm16") _,
            options(nostack)
        );
    }
    found.iter().fold(0, |all, word| all ^ word)
}

/// Writes a word everywhere, 64 bytes at a time.
pub(crate) fn write_avx512(bytes: &mut [u8], value: u64) {
    assert!(has_avx512());
    let rounds = rounds(bytes.len());
    // SAFETY: the loop writes `rounds` times 256 bytes from the start of the slice, which has as
    // many; every register that it changes is named.
    unsafe {
        asm!(
            "vpbroadcastq zmm16, {value}",
            "2:",
            "vmovdqu64 [{at}], zmm16",
            "vmovdqu64 [{at} + 64], zmm16",
            "vmovdqu64 [{at} + 128], zmm16",
            "vmovdqu64 [{at} + 192], zmm16",
            "add {at}, 256",
            "dec {rounds}",
            "jnz 2b",
            value = in(reg) value,
            at = inout(reg) bytes.as_mut_ptr() => _,
            rounds = inout(reg) rounds => _,
            out("zmm16") _,
            options(nostack)
        );
    }
}

/// Copies, 64 bytes at a time.
pub(crate) fn copy_avx512(from: &[u8], to: &mut [u8]) {
    assert!(has_avx512() && from.len() == to.len());
    let rounds = rounds(from.len());
    // SAFETY: the loop reads and writes `rounds` times 256 bytes from the starts of the slices, which
    // have as many and do not overlap; every register that it changes is named.
    unsafe {
        asm!(
            "2:",
            "vmovdqu64 zmm16, [{from}]",
            "vmovdqu64 zmm17, [{from} + 64]",
            "vmovdqu64 [{to}], zmm16",
            "vmovdqu64 [{to} + 64], zmm17",
            "vmovdqu64 zmm16, [{from} + 128]",
            "vmovdqu64 zmm17, [{from} + 192]",
            "vmovdqu64 [{to} + 128], zmm16",
            "vmovdqu64 [{to} + 192], zmm17",
            "add {from}, 256",
            "add {to}, 256",
            "dec {rounds}",
            "jnz 2b",
            from = inout(reg) from.as_ptr() => _,
            to = inout(reg) to.as_mut_ptr() => _,
            rounds = inout(reg) rounds => _,
            out("zmm16") _,
            out("zmm17") _,
            options(nostack)
        );
    }
}

/// Puts 16 bytes past the caches.
#[inline(always)]
fn stream(to: &mut [u8; 16], value: __m128i) {
    let to = to.as_mut_ptr().cast::<__m128i>();
    debug_assert!(to.is_aligned());
    // SAFETY: the 16 bytes are ours to write, and aligned, as the callers assert of their slices.
    unsafe { _mm_stream_si128(to, value) }
}

#[inline(always)]
fn store(to: &mut [u8; 16], value: __m128i) {
    // SAFETY: the 16 bytes are ours to write; no alignment is needed.
    unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), value) }
}

#[inline(always)]
fn load(from: &[u8; 16]) -> __m128i {
    // SAFETY: the 16 bytes are readable; no alignment is needed.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

/// Ends a sweep past the caches: others see all of it.
fn fence() {
    // SAFETY: every x86-64 CPU has the instruction; it changes nothing.
    #[allow(unused_unsafe)]
    unsafe {
        _mm_sfence();
    }
}

/// Writes a word everywhere, past the caches.
pub(crate) fn write_past_caches(bytes: &mut [u8], value: u64) {
    let (pieces, rest) = bytes.as_chunks_mut::<16>();
    assert!(rest.is_empty() && pieces.as_ptr().cast::<__m128i>().is_aligned());
    let both = sse2::both(value);
    for piece in pieces {
        stream(piece, both);
    }
    fence();
}

/// Copies past the caches.
pub(crate) fn copy_past_caches(from: &[u8], to: &mut [u8]) {
    let ((from, _), (to, rest)) = (from.as_chunks::<16>(), to.as_chunks_mut::<16>());
    assert!(
        rest.is_empty() && from.len() == to.len() && to.as_ptr().cast::<__m128i>().is_aligned()
    );
    for (from, to) in from.iter().zip(to) {
        stream(to, load(from));
    }
    fence();
}
