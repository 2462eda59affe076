use super::*;

const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";

#[test]
fn a_library_is_known_by_its_own_name_or_by_its_file_s() {
    assert_eq!(key("/opt/x/libcuda.so.550.54", Some("libcuda.so.1")), Some("gpu_calls_cuda"));
    assert_eq!(key("/opt/x/libvulkan.so.1", None), Some("gpu_calls_vulkan"));
    assert_eq!(key(LIBC, Some("libc.so.6")), None);
}

fn key(path: &str, soname: Option<&str>) -> Option<&'static str> {
    preset_of(Path::new(path), soname).map(|preset| preset.key)
}

#[test]
fn libraries_are_found_in_the_usual_folders_each_file_once() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("usr/lib/x86_64-linux-gnu");
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink("usr/lib", root.path().join("lib")).unwrap();
    std::fs::write(folder.join("libcuda.so.550.54"), "").unwrap();
    std::os::unix::fs::symlink("libcuda.so.550.54", folder.join("libcuda.so.1")).unwrap();
    std::os::unix::fs::symlink("nothing", folder.join("libEGL.so.1")).unwrap();
    std::fs::write(folder.join("libcudart.so.12"), "").unwrap();
    let mut found: Vec<_> = installed_libraries(root.path())
        .into_iter()
        .map(|(preset, path)| (preset.key, path))
        .collect();
    found.sort();
    let expected = [
        ("gpu_calls_cuda", folder.join("libcuda.so.1")),
        ("gpu_calls_cudart", folder.join("libcudart.so.12")),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_library_without_the_functions_is_told_of_and_nothing_is_planned() {
    let preset = library_presets().next().unwrap();
    let (mut planner, mut plan) = (Planner::default(), Plan::default());
    let OpenFile { file, key, .. } =
        OpenFile::at(&FileLocation::Named(Path::new(LIBC)), None).unwrap();
    let message =
        planner.preset(preset, (key, LIBC), &ReadCache::new(file.reader()), &mut plan).unwrap();
    assert!(message.contains("none of the functions") && message.contains("CUDA"), "{message}");
    let script = tempfile::NamedTempFile::new().unwrap();
    let message = planner
        .preset(
            preset,
            (key, "x"),
            &ReadCache::new(Reader::of(script.as_file()).unwrap()),
            &mut plan,
        )
        .unwrap();
    assert!(message.starts_with("x: calls of CUDA are not recorded: "), "{message}");
    assert!(plan.points.is_empty() && plan.definitions.is_empty());
}
