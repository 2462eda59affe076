//! Devices of GPUs, and the drivers that made them.

#![expect(clippy::disallowed_methods, reason = "what the kernel has below /sys")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Buses that carry drivers; who drives the GPU is told elsewhere.
const CARRIERS: [&str; 2] = ["faux_driver", "virtio-pci"];

/// Device files by driver, of the machine whose /sys lies below `root`.
pub(crate) fn devices(root: &Path) -> BTreeMap<String, Vec<String>> {
    let entries = fs::read_dir(root.join("sys/class/drm")).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    let mut drivers = BTreeMap::<String, Vec<String>>::new();
    for name in names.into_iter().filter(|name| is_device(name)) {
        drivers.entry(driver_of(root, &name)).or_default().push(name);
    }
    drivers
}

/// Connectors of displays, which are there, too, have names like card0-HDMI-A-1.
fn is_device(name: &str) -> bool {
    let number = name.strip_prefix("card").or_else(|| name.strip_prefix("renderD"));
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The driver of a device file of this name; virtual ones are named after themselves.
pub(crate) fn driver_of(root: &Path, name: &str) -> String {
    let device = root.join("sys/class/drm").join(name).join("device");
    let own = driver_link(&device).filter(|driver| !CARRIERS.contains(&driver.as_str()));
    own.or_else(|| {
        let below = fs::read_dir(&device).into_iter().flatten().flatten().map(|entry| entry.path());
        below
            .filter(|path| last_component(path).is_some_and(|name| name.starts_with("virtio")))
            .find_map(|path| driver_link(&path))
    })
    .or_else(|| fs::canonicalize(&device).ok().and_then(|path| last_component(&path)))
    .unwrap_or_else(|| name.to_owned())
}

fn driver_link(device: &Path) -> Option<String> {
    fs::read_link(device.join("driver")).ok().and_then(|link| last_component(&link))
}

fn last_component(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A device below /sys/devices, and the driver that its bus names.
    fn device(root: &Path, name: &str, place: &str, driver: Option<&str>) {
        let device = root.join("sys/devices").join(place);
        let folder = root.join("sys/class/drm").join(name);
        fs::create_dir_all(&device).unwrap();
        fs::create_dir_all(&folder).unwrap();
        symlink(&device, folder.join("device")).unwrap();
        if let Some(driver) = driver {
            let _ = symlink(format!("../../bus/x/drivers/{driver}"), device.join("driver"));
        }
    }

    #[test]
    fn a_driver_is_named_wherever_its_bus_hides_it() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        device(root, "card0", "pci0000:00/0000:0b:00.0", Some("amdgpu"));
        device(root, "renderD128", "pci0000:00/0000:0b:00.0", Some("amdgpu"));
        device(root, "card1", "pci0000:00/0000:00:03.0", Some("virtio-pci"));
        fs::create_dir_all(root.join("sys/devices/pci0000:00/0000:00:03.0/virtio1")).unwrap();
        let carried = root.join("sys/devices/pci0000:00/0000:00:03.0/virtio1/driver");
        symlink("../../bus/virtio/drivers/virtio_gpu", carried).unwrap();
        device(root, "card2", "faux/vgem", Some("faux_driver"));
        device(root, "card3", "platform/vkms", None);
        fs::create_dir_all(root.join("sys/class/drm/card1-Virtual-1")).unwrap();
        fs::create_dir_all(root.join("sys/class/drm/version")).unwrap();
        let found: Vec<_> =
            devices(root).into_iter().map(|(driver, files)| (driver, files.join(" "))).collect();
        let expected = [
            ("amdgpu", "card0 renderD128"),
            ("vgem", "card2"),
            ("virtio_gpu", "card1"),
            ("vkms", "card3"),
        ];
        assert_eq!(found, expected.map(|(driver, files)| (driver.to_owned(), files.to_owned())));
    }
}
