use super::*;
use proptest::prelude::*;

/// As amdgpu writes from 6.14 on: both names of what is resident, and keys of its own.
const AMDGPU: &str = "pos:\t0\nflags:\t02100002\nmnt_id:\t24\nino:\t913\n\
    drm-driver:\tamdgpu\ndrm-client-id:\t41\ndrm-pdev:\t0000:0b:00.0\npasid:\t32771\n\
    drm-total-cpu:\t0\ndrm-shared-cpu:\t0\ndrm-active-cpu:\t0\ndrm-resident-cpu:\t0\n\
    drm-total-gtt:\t5 MiB\ndrm-resident-gtt:\t4096 KiB\n\
    drm-total-vram:\t700 MiB\ndrm-shared-vram:\t8 MiB\ndrm-active-vram:\t0\n\
    drm-resident-vram:\t512 MiB\n\
    drm-purgeable-vram:\t0\n\
    drm-memory-vram:\t524288 KiB\ndrm-memory-gtt: \t4096 KiB\ndrm-memory-cpu: \t0 KiB\n\
    amd-evicted-vram:\t77 KiB\namd-requested-vram:\t9 KiB\n\
    drm-engine-gfx:\t812000333 ns\ndrm-engine-compute:\t90 ns\n";

const I915: &str = "pos:\t0\ndrm-driver:\ti915\ndrm-client-id:\t6\ndrm-pdev:\t0000:00:02.0\n\
    drm-total-system0:\t100 MiB\ndrm-shared-system0:\t9 MiB\ndrm-active-system0:\t0\n\
    drm-resident-system0:\t60 MiB\ndrm-purgeable-system0:\t11 MiB\ndrm-total-stolen-system0:\t0\n\
    drm-engine-render:\t7000 ns\ndrm-engine-copy:\t0 ns\ndrm-engine-video:\t30 ns\n\
    drm-engine-capacity-video:\t2\n\
    drm-engine-video-enhance:\t0 ns\n";

const XE: &str = "drm-driver:\txe\ndrm-client-id:\t3\ndrm-pdev:\t0000:03:00.0\n\
    drm-total-vram0:\t2000 KiB\ndrm-resident-vram0:\t1000 KiB\ndrm-total-gtt:\t0\n\
    drm-resident-gtt:\t0\n\
    drm-cycles-rcs:\t5000\ndrm-total-cycles-rcs:\t900000\n\
    drm-cycles-ccs:\t1\ndrm-total-cycles-ccs:\t900000\ndrm-engine-capacity-ccs:\t4\n";

/// A driver of a device that is on no PCI bus; memory is the machine's.
const MSM: &str = "drm-driver:\tmsm\ndrm-client-id:\t19\ndrm-engine-gpu:\t1234 ns\n\
    drm-cycles-gpu:\t99\n\
    drm-maxfreq-gpu:\t800000000 Hz\ndrm-total-memory:\t12 MiB\ndrm-shared-memory:\t0\n\
    drm-resident-memory:\t3 MiB\ndrm-purgeable-memory:\t0\n";

fn parse(text: &str) -> ClientUsage {
    ClientUsage::parse(text).unwrap()
}

fn memory(usage: &ClientUsage) -> Vec<(&str, u64)> {
    usage.memory.iter().map(|(region, bytes)| (region.as_str(), *bytes)).collect()
}

fn engine(busy: Busy, capacity: u64) -> Engine {
    Engine { busy, capacity }
}

#[test]
fn amdgpu_tells_what_is_resident_by_two_names_and_it_counts_once() {
    let usage = parse(AMDGPU);
    let device = Device { driver: "amdgpu".into(), slot: "0000:0b:00.0".into() };
    assert_eq!(usage.client, ClientId { device, number: 41 });
    assert_eq!(memory(&usage), [("cpu", 0), ("gtt", 4 << 20), ("vram", 512 << 20)]);
    assert_eq!(usage.engines["gfx"], engine(Busy::Nanoseconds(812_000_333), 1));
    assert_eq!((usage.engines.len(), usage.damaged), (2, 0));
}

#[test]
fn i915_has_groups_of_engines_and_regions_that_only_tell_their_total() {
    let usage = parse(I915);
    assert_eq!(memory(&usage), [("stolen-system0", 0), ("system0", 60 << 20)]);
    assert_eq!(usage.engines["video"], engine(Busy::Nanoseconds(30), 2));
    assert_eq!(usage.engines["video-enhance"], engine(Busy::Nanoseconds(0), 1));
    assert_eq!(usage.engines.len(), 4);
}

#[test]
fn xe_counts_cycles_and_its_total_cycles_are_no_memory() {
    let usage = parse(XE);
    assert_eq!(memory(&usage), [("gtt", 0), ("vram0", 1000 << 10)]);
    assert_eq!(usage.engines["rcs"], engine(Busy::Cycles { busy: 5000, all: 900_000 }, 1));
    assert_eq!(usage.engines["ccs"], engine(Busy::Cycles { busy: 1, all: 900_000 }, 4));
}

#[test]
fn msm_is_on_no_bus_and_its_nanoseconds_go_before_cycles_without_a_total() {
    let usage = parse(MSM);
    assert_eq!(usage.client.device, Device { driver: "msm".into(), slot: String::new() });
    assert_eq!(memory(&usage), [("memory", 3 << 20)]);
    assert_eq!(usage.engines["gpu"], engine(Busy::Nanoseconds(1234), 1));
}

#[test]
fn a_driver_may_tell_of_memory_only_by_its_first_name() {
    let usage =
        parse("drm-driver: old\ndrm-client-id: 1\ndrm-memory-vram:  7\ndrm-memory-gtt: 2 MiB\n");
    assert_eq!(memory(&usage), [("gtt", 2 << 20), ("vram", 7)]);
    assert!(usage.engines.is_empty());
}

#[test]
fn damaged_values_are_left_out_and_counted_and_the_rest_stays() {
    let usage = parse(
        "drm-driver: x\ndrm-client-id: 1\ndrm-memory-a: -1\ndrm-memory-b: 1 GB\n\
         drm-memory-c: 1 KiB of it\n\
         drm-memory-d: 18446744073709551615 MiB\ndrm-memory-: 5\ndrm-engine-e: 7\n\
         drm-engine-f: 7 ms\n\
         drm-engine-capacity-g: 0\ndrm-engine-g: 4 ns\ndrm-cycles-h: 99999999999999999999\n\
         drm-memory-good: 5\n",
    );
    assert_eq!(memory(&usage), [("good", 5)]);
    assert_eq!(usage.engines.keys().collect::<Vec<_>>(), ["g"]);
    assert_eq!((usage.engines["g"].capacity, usage.damaged), (1, 9));
}

#[test]
fn files_that_are_no_gpus_and_clients_without_a_number_are_none() {
    for text in [
        "",
        "pos:\t0\nflags:\t02\nmnt_id:\t15\n",
        "drm-client-id:\t4\ndrm-memory-vram: 1\n",
        "drm-driver:\t\ndrm-client-id:\t4\n",
        "drm-driver:\tx\n",
        "drm-driver:\tx\ndrm-client-id:\tfour\n",
    ] {
        assert_eq!(ClientUsage::parse(text), None, "{text:?}");
    }
}

#[test]
fn a_driver_that_tells_without_end_is_heard_so_far() {
    let lines: String = (0..1000).map(|region| format!("drm-memory-r{region}: 1\n")).collect();
    let usage = parse(&format!("drm-driver: x\ndrm-client-id: 1\n{lines}"));
    assert_eq!((usage.memory.len(), usage.damaged), (MOST_ENTRIES, 1000 - MOST_ENTRIES));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*") {
        let _ = ClientUsage::parse(&text);
    }

    #[test]
    fn lines_in_any_order_and_with_others_between_say_the_same(
        seed in prop::collection::vec(any::<prop::sample::Index>(), 32),
        which in 0usize..4,
        noise in "[a-z]{0,8}:? [0-9]{0,4}",
    ) {
        let text = [AMDGPU, I915, XE, MSM][which];
        let mut lines: Vec<&str> = text.lines().collect();
        for index in seed {
            let line = lines.remove(index.index(lines.len()));
            lines.push(line);
        }
        lines.insert(0, &noise);
        prop_assert_eq!(parse(&lines.join("\n")), parse(text));
    }

    #[test]
    fn units_are_multiples(number in 0u64..1 << 40) {
        for (unit, shift) in [("", 0), (" KiB", 10), (" MiB", 20)] {
            let text = format!("drm-driver: x\ndrm-client-id: 1\ndrm-resident-r: {number}{unit}\n");
            prop_assert_eq!(ClientUsage::parse(&text).unwrap().memory["r"], number << shift);
        }
    }
}
