//! Asks the processor which hypervisor it runs under.

#![allow(unsafe_code)]

/// The signature that a hypervisor shows in CPUID leaf 0x4000_0000, such as `KVMKVMKVM`.
///
/// Call only where the processor's `hypervisor` flag is set: on bare metal the leaf holds whatever
/// the highest basic leaf holds. `None` on processors without CPUID.
#[cfg(target_arch = "x86_64")]
pub(crate) fn hypervisor_signature() -> Option<String> {
    // Newer compilers know that CPUID is safe on x86-64; 1.85, our oldest, does not.
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 processor has the CPUID instruction, and it changes no memory.
    let leaf = unsafe { std::arch::x86_64::__cpuid(0x4000_0000) };
    let bytes = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat();
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(|letter: char| letter == '\0' || letter.is_whitespace());
    (!text.is_empty()).then(|| text.to_owned())
}

/// Other processors have no such instruction.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn hypervisor_signature() -> Option<String> {
    None
}
