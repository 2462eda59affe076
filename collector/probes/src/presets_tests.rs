use super::*;
use crate::argument::evaluate;
use std::collections::BTreeSet;

fn preset(library: &str) -> &'static LibraryPreset {
    library_presets().find(|preset| preset.is_of(library)).unwrap()
}

/// What a call shows whose words are 100, 101, ... with 7 in the upper half of each, and whose
/// pointers lead to bytes that are their own offsets.
fn shown(library: &str, symbol: &str) -> Vec<(&'static str, u64)> {
    let arguments = preset(library).function(symbol).unwrap().arguments.iter();
    let shown = arguments.map(|(name, parameter)| {
        let value = evaluate(&parameter.argument(), |of| number(of).map_or(STACK, word), read);
        (*name, value.unwrap())
    });
    shown.collect()
}

/// Where the stack of such a call lies.
const STACK: u64 = 0x7000_0000;

fn read(address: u64, bytes: &mut [u8]) -> bool {
    let value = match address {
        STACK.. if address < STACK + 0x1000 => word(6 + (address - STACK - 8) / 8),
        _ => address - word(0),
    };
    bytes.copy_from_slice(&value.to_le_bytes()[..bytes.len()]);
    true
}

fn number(register: crate::Register) -> Option<u64> {
    PARAMETERS.iter().position(|own| *own == register).map(|number| number as u64)
}

fn word(number: u64) -> u64 {
    7 << 32 | (100 + number)
}

#[test]
fn a_launch_shows_its_grid_and_blocks_wherever_the_interface_puts_them() {
    let low: Vec<u64> =
        shown("libcuda.so.1", "cuLaunchKernel").iter().map(|(_, value)| *value & 0xffff).collect();
    assert_eq!(low, [101, 102, 103, 104, 105, 106, 107, 108]);
    let by_value: Vec<u64> =
        shown("libcudart.so.12", "cudaLaunchKernel").iter().map(|(_, value)| *value).collect();
    assert_eq!(by_value[..6], [101, 7, 102, 103, 7, 104], "x and y of a dim3 share a word");
    assert_eq!(
        by_value[6..],
        [7 << 32 | 106, 7 << 32 | 107],
        "behind the pointer to the arguments"
    );
    let pointed: Vec<u64> =
        shown("libcuda.so.1", "cuLaunchKernelEx").iter().map(|(_, value)| *value).collect();
    assert_eq!(pointed, [0, 4, 8, 12, 16, 20, 24, 32]);
}

#[test]
fn a_copy_shows_its_bytes() {
    assert_eq!(shown("libcuda.so.1", "cuMemcpyHtoD_v2_ptds"), [("bytes", 7 << 32 | 102)]);
    assert_eq!(
        shown("libamdhip64.so.6", "hipMemcpy_spt"),
        [("bytes", 7 << 32 | 102), ("kind", 103)]
    );
}

#[test]
fn variants_are_the_function_and_other_names_are_not() {
    let cuda = preset("libcuda.so.1");
    assert_eq!(cuda.function("cuStreamSynchronize_ptsz").unwrap().name, "cuStreamSynchronize");
    assert!(cuda.function("cuMemcpyHtoD").is_none(), "the first version has other types");
    assert!(cuda.function("cuStreamSynchronize_ptsz_ptsz").is_none());
    let vulkan = preset("libvulkan.so.1");
    assert_eq!(vulkan.function("vkQueueSubmit2KHR").unwrap().name, "vkQueueSubmit2");
    assert!(vulkan.function("vkQueuePresentKHR").unwrap().frames.is_some());
}

#[test]
fn what_gives_addresses_of_functions_says_where_it_is_told_their_name() {
    assert_eq!(preset("libvulkan.so.1").lookup("vkGetDeviceProcAddr"), Some(Parameter::Word(1, 8)));
    assert_eq!(preset("libEGL.so.1").lookup("eglGetProcAddress"), Some(Parameter::Word(0, 8)));
    assert_eq!(preset("libEGL.so.1").lookup("eglSwapBuffers"), None);
}

#[test]
fn libraries_are_told_by_their_names_with_any_version_where_that_changes() {
    assert_eq!(preset("libcudart.so.11.0").key, "gpu_calls_cudart");
    for other in
        ["libcuda.so", "libcuda.so.2", "libcudart.so", "libvulkan_lvp.so", "libEGL_mesa.so.0", ""]
    {
        assert!(library_presets().all(|preset| !preset.is_of(other)), "{other}");
    }
}

#[test]
fn functions_of_gl_are_never_probed_for_their_code_is_rewritten() {
    let functions = library_presets().flat_map(LibraryPreset::functions);
    assert!(
        functions
            .map(|function| function.name)
            .all(|name| !name.starts_with("gl") || name.starts_with("glX"))
    );
}

#[test]
fn each_preset_is_one_of_its_kind_and_reads_no_more_than_a_hit_has_room_for() {
    let keys: BTreeSet<_> = library_presets().map(|preset| preset.key).collect();
    assert_eq!(keys.len(), library_presets().count());
    for preset in library_presets() {
        let names: BTreeSet<_> = preset.functions().iter().map(|function| function.name).collect();
        assert_eq!(names.len(), preset.functions().len(), "{}", preset.key);
        for function in preset.functions() {
            assert!(function.arguments.len() <= 12, "{}", function.name);
            let arguments = function.arguments.iter().map(|(_, parameter)| parameter.argument());
            assert!(
                arguments.into_iter().all(|argument| argument.is_supported()),
                "{}",
                function.name
            );
        }
    }
}
