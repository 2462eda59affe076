//! Calls of GPU libraries with `--gpu`: stand-ins with the libraries' names and functions, called
//! so often as the test knows. No GPU is needed, and nothing is said of what real drivers do within
//! them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, Scope, Tables, Time, TrackId, Value};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::context::{Context, text};
use crate::report::Outcome;

const LAUNCHES: u64 = 1_000;
const SWAPS: u64 = 100;
const SUBMITS: u64 = 50;
/// How long each call of the stand-in for Vulkan's wait takes, ns.
const WAIT_NS: u64 = 2_000_000;

/// Launches return by themselves; a swap jumps to where a pointer leads, as dispatch libraries do;
/// a wait sleeps behind such a jump.
const CUDA: &str = "int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned \
    bx, unsigned by,\n\
    unsigned bz, unsigned shared, void *stream, void **p, void **e) \
    { return gx + bz + shared == 0; }\n\
    int cuMemcpyHtoDAsync_v2_ptsz(unsigned long to, void *from, unsigned long bytes, void *stream) \
    { return !bytes; }\n\
    int cuCtxSynchronize(void) { return 0; }\n";
const CUDART: &str = "typedef struct { unsigned x, y, z; } dim3;\n\
    extern int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
    unsigned,\n\
    void *, void **, void **);\n\
    int cudaLaunchKernel(void *f, dim3 g, dim3 b, void **a, unsigned long shared, void *stream) {\n\
    return cuLaunchKernel(f, g.x, g.y, g.z, b.x, b.y, b.z, shared, stream, a, 0) + 1; }\n";
const EGL: &str = "static unsigned swap(void *d, void *s) { return d != s; }\n\
    unsigned (*volatile driver)(void *, void *) = swap;\n\
    unsigned eglSwapBuffers(void *d, void *s) { return driver(d, s); }\n";
const VULKAN: &str = "#include <time.h>\n\
    static int submit(void *q, unsigned n, void *s, void *f) { return 0; }\n\
    static int sleeps(void *d, unsigned n, void *f, unsigned all, unsigned long ns) {\n\
    struct timespec t = { 0, ns }; return nanosleep(&t, 0); }\n\
    int (*volatile to_submit)(void *, unsigned, void *, void *) = submit;\n\
    int (*volatile to_wait)(void *, unsigned, void *, unsigned, unsigned long) = sleeps;\n\
    int vkQueueSubmit(void *q, unsigned n, void *s, void *f) { return to_submit(q, n, s, f); }\n\
    int vkWaitForFences(void *d, unsigned n, void *f, unsigned all, unsigned long ns) {\n\
    return to_wait(d, n, f, all, ns); }\n\
    extern int present_of_driver(void *, void *);\n\
    void *vkGetDeviceProcAddr(void *d, const char *name) {\n\
    return __builtin_strcmp(name, \"vkQueuePresentKHR\") ? 0 : (void *)present_of_driver; }\n";
/// What Vulkan's loader leads to: nothing tells by its name what it is.
const DRIVER: &str = "int present_of_driver(void *q, void *p) { return q != p; }\n";
/// A library that has lost its functions.
const OPENCL: &str = "int nothing_of_opencl(void) { return 0; }\n";

/// Calls them by their names, as programs do that are linked with them.
const CALLER: &str = "typedef struct { unsigned x, y, z; } dim3;\n\
    int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
    unsigned, void *, void **,\n\
    void **);\n\
    int cuMemcpyHtoDAsync_v2_ptsz(unsigned long, void *, unsigned long, void *);\n\
    int cuCtxSynchronize(void);\n\
    int cudaLaunchKernel(void *, dim3, dim3, void **, unsigned long, void *);\n\
    unsigned eglSwapBuffers(void *, void *);\n\
    int vkQueueSubmit(void *, unsigned, void *, void *);\n\
    int vkWaitForFences(void *, unsigned, void *, unsigned, unsigned long);\n\
    int nothing_of_opencl(void);\n\
    void *vkGetDeviceProcAddr(void *, const char *);\n\
    unsigned sleep(unsigned);\n\
    int main() {\n";

/// Every call is a zone with its parameters on the interface's track, and every swap a frame.
pub(crate) fn presets(context: &Context) -> Result<Outcome> {
    let Some(folder) = stand_ins(context)? else {
        return Ok(Outcome::Skipped("there is no C compiler".to_owned()));
    };
    let (capture, caller) = (context.path("presets.syscap"), folder.join("caller"));
    let arguments = ["record", "-o", text(&capture)?, "--gpu", "--only", "--", text(&caller)?];
    let output = context.succeed(&arguments)?;
    let recorded = RecordedCalls::of(&capture)?;
    for (track, name, calls) in [
        // The runtime calls the driver.
        ("CUDA", "cuLaunchKernel", LAUNCHES + SUBMITS),
        ("CUDA", "cudaLaunchKernel", SUBMITS),
        ("CUDA", "cuMemcpyHtoDAsync_v2_ptsz", SUBMITS),
        ("CUDA", "cuCtxSynchronize", 1),
        ("EGL", "eglSwapBuffers", SWAPS),
        ("Vulkan", "vkQueueSubmit", SUBMITS),
        ("Vulkan", "vkWaitForFences", SUBMITS),
        ("Vulkan", "vkGetDeviceProcAddr", 2),
        // The driver's own, which was asked for by name.
        ("Vulkan", "vkQueuePresentKHR", SWAPS),
    ] {
        let found = recorded.zones(track, name);
        ensure!(
            found.begun == calls,
            "{} zones of {name}, not {calls}: {recorded:?}\n{}",
            found.begun,
            output.stderr
        );
        ensure!(found.ended == calls, "{} zones of {name} ended, not {calls}", found.ended);
    }
    parameters(&recorded)?;
    // The first swap begins the first frame.
    for set in ["EGL frames", "Vulkan frames"] {
        ensure!(
            recorded.frames.get(set) == Some(&SWAPS),
            "not {SWAPS} frames: {:?}",
            recorded.frames
        );
    }
    let shortest = recorded.zones("Vulkan", "vkWaitForFences").shortest_ns;
    ensure!(
        shortest >= WAIT_NS,
        "a wait of {WAIT_NS} ns took {shortest} ns: it ended with the jump"
    );
    let reported = output.stderr.lines().filter(|line| line.contains("OpenCL")).count();
    ensure!(
        reported == 1,
        "a library without functions is told of {reported} times:\n{}",
        output.stderr
    );
    Ok(Outcome::Passed(format!(
        "{LAUNCHES} of {LAUNCHES} launches with their sizes, {SWAPS} of {SWAPS} swaps and presents \
         as frames, waits whole"
    )))
}

/// What the calls were given is what their zones show.
fn parameters(recorded: &RecordedCalls) -> Result<()> {
    let numbers = LAUNCHES * (LAUNCHES - 1) / 2;
    let of_runtime = SUBMITS * 4;
    let launches = ["grid_x", "grid_y", "block_x", "block_z", "shared_bytes"]
        .map(|field| recorded.sum("CUDA", "cuLaunchKernel", field));
    let expected = [
        numbers + of_runtime,
        2 * LAUNCHES + 5 * SUBMITS,
        32 * LAUNCHES + 7 * SUBMITS,
        3 * LAUNCHES + 9 * SUBMITS,
        64 * LAUNCHES + 10 * SUBMITS,
    ];
    ensure!(launches == expected, "the launches' sizes sum up to {launches:?}, not {expected:?}");
    let runtime = ["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared_bytes"]
        .map(|field| recorded.sum("CUDA", "cudaLaunchKernel", field) / SUBMITS);
    ensure!(runtime == [4, 5, 6, 7, 8, 9, 10], "a launch of the runtime shows {runtime:?}");
    let bytes = recorded.sum("CUDA", "cuMemcpyHtoDAsync_v2_ptsz", "bytes");
    ensure!(bytes == SUBMITS << 33, "{bytes} bytes were copied, not {}", SUBMITS << 33);
    let nested = recorded.zones("CUDA", "cuLaunchKernel").nested;
    ensure!(nested == SUBMITS, "{nested} launches lie within others, not {SUBMITS}");
    Ok(())
}

/// Makes the libraries and their caller; `None` where there is no compiler.
fn stand_ins(context: &Context) -> Result<Option<PathBuf>> {
    let folder = context.path("gpu-libraries");
    fs::create_dir(&folder)?;
    // A function that was asked for is attached to when that has been noticed.
    let attaching = if context.is_emulated() { 5 } else { 1 };
    let main = format!(
        "{CALLER}dim3 g = {{ 4, 5, 6 }}, b = {{ 7, 8, 9 }};\n\
         for (unsigned i = 0; i < {LAUNCHES}; i++) cuLaunchKernel(0, i, 2, 1, 32, 4, 3, 64, (void \
         *)1, 0, 0);\n\
         for (unsigned i = 0; i < {SUBMITS}; i++) {{ cudaLaunchKernel(0, g, b, 0, 10, 0);\n\
         cuMemcpyHtoDAsync_v2_ptsz(0, 0, 1ul << 33, 0);\n\
         vkQueueSubmit(0, 1, 0, 0); vkWaitForFences(0, 1, 0, 1, {WAIT_NS}); }}\n\
         for (unsigned i = 0; i < {SWAPS}; i++) eglSwapBuffers(0, 0);\n\
         int (*present)(void *, void *) = vkGetDeviceProcAddr(0, \"vkQueuePresentKHR\");\n\
         vkGetDeviceProcAddr(0, \"vkCmdDraw\"); sleep({attaching});\n\
         for (unsigned i = 0; i < {SWAPS}; i++) present(0, 0);\n\
         nothing_of_opencl(); return cuCtxSynchronize(); }}\n"
    );
    let libraries = [
        ("libcuda.so.1", CUDA),
        ("libcudart.so.12", CUDART),
        ("libEGL.so.1", EGL),
        ("libvulkan.so.1", VULKAN),
        ("libdriver.so", DRIVER),
        ("libOpenCL.so.1", OPENCL),
    ];
    for (name, source) in libraries {
        let soname = format!("-Wl,-soname,{name}");
        if !compile(&folder, name, source, &["-shared", "-fPIC", &soname])? {
            return Ok(None);
        }
    }
    let search = [format!("-L{}", text(&folder)?), format!("-Wl,-rpath,{}", text(&folder)?)];
    let names: Vec<String> = libraries.iter().map(|(name, _)| format!("-l:{name}")).collect();
    let mut options = vec!["-Wl,--allow-shlib-undefined,--no-as-needed"];
    options.extend(search.iter().chain(&names).map(String::as_str));
    Ok(compile(&folder, "caller", &main, &options)?.then_some(folder))
}

fn compile(folder: &Path, name: &str, source: &str, options: &[&str]) -> Result<bool> {
    let code = folder.join(format!("{name}.c"));
    fs::write(&code, source)?;
    let compiler = Command::new("cc")
        .args(["-O2", "-w", "-o"])
        .arg(folder.join(name))
        .arg(&code)
        .args(options)
        .output();
    let Ok(output) = compiler else { return Ok(false) };
    ensure!(output.status.success(), "cc {name}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(true)
}

/// Zones of one name on one track.
#[derive(Clone, Debug, Default)]
struct Zones {
    begun: u64,
    ended: u64,
    /// Those that lie within others.
    nested: u64,
    shortest_ns: u64,
    /// Sums of fields by their names.
    sums: BTreeMap<String, u64>,
}

/// What a capture shows of calls.
#[derive(Debug, Default)]
struct RecordedCalls {
    zones: BTreeMap<(String, String), Zones>,
    /// Frames by their set.
    frames: BTreeMap<String, u64>,
    open: BTreeMap<TrackId, Vec<(String, u64)>>,
}

impl RecordedCalls {
    fn of(capture: &Path) -> Result<Self> {
        let mut recorded = Self::default();
        Session::open(CaptureReader::open(capture)?)?
            .play(&mut recorded)
            .context("cannot play the capture")?;
        Ok(recorded)
    }

    fn zones(&self, track: &str, name: &str) -> Zones {
        self.zones.get(&(track.to_owned(), name.to_owned())).cloned().unwrap_or_default()
    }

    fn sum(&self, track: &str, name: &str, field: &str) -> u64 {
        self.zones(track, name).sums.get(field).copied().unwrap_or(0)
    }
}

impl Exporter for RecordedCalls {
    type Error = std::convert::Infallible;

    fn event(&mut self, at: Time, event: &Event, tables: &Tables) -> Result<(), Self::Error> {
        match event {
            Event::SliceBegin(track, slice)
                if matches!(tables.track(*track).scope, Scope::Thread(_)) =>
            {
                let name = tables.strings.get(slice.name).to_owned();
                let open = self.open.entry(*track).or_default();
                let zones =
                    self.zones.entry((track_name(tables, *track), name.clone())).or_default();
                zones.begun += 1;
                zones.nested += u64::from(!open.is_empty());
                for field in &slice.fields {
                    if let Value::Unsigned(value) = field.value {
                        *zones
                            .sums
                            .entry(tables.strings.get(field.name).to_owned())
                            .or_default() += value;
                    }
                }
                open.push((name, at.0));
            }
            Event::SliceBegin(track, _) => {
                *self.frames.entry(track_name(tables, *track)).or_default() += 1;
            }
            Event::SliceEnd(track) => {
                if let Some((name, since)) = self.open.get_mut(track).and_then(Vec::pop) {
                    let zones = self.zones.entry((track_name(tables, *track), name)).or_default();
                    let took = at.0.saturating_sub(since);
                    zones.shortest_ns =
                        if zones.ended == 0 { took } else { zones.shortest_ns.min(took) };
                    zones.ended += 1;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn track_name(tables: &Tables, track: TrackId) -> String {
    tables.strings.get(tables.track(track).name).to_owned()
}
