//! Addresses and masks as the kernel's texts have them, without `0x`.

pub(crate) fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}
