//! Kernels from Debian's packages, unpacked outside the checkout and kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::output_of;

/// A kernel that lies unpacked.
pub(crate) struct Kernel {
    /// As `uname -r` says it there.
    pub(crate) version: String,
    /// The folder that holds `lib/modules`.
    pub(crate) folder: PathBuf,
    /// The bootable image.
    pub(crate) image: PathBuf,
}

/// Unpacks what is not unpacked yet; packages of one version belong together.
pub(crate) fn unpack(packages: &[PathBuf]) -> Result<Vec<Kernel>> {
    let mut versions: BTreeMap<String, Vec<&Path>> = BTreeMap::new();
    for package in packages {
        versions.entry(version_of(package)?).or_default().push(package);
    }
    versions.into_iter().map(|(version, packages)| unpack_one(version, &packages)).collect()
}

/// The kernel's version in a file name like `linux-image-6.1.0-50-amd64_6.1.176-1_amd64.deb`.
fn version_of(package: &Path) -> Result<String> {
    let name = package.file_name().unwrap_or_default().to_string_lossy();
    let rest = ["linux-image-", "linux-binary-", "linux-modules-"]
        .iter()
        .find_map(|kind| name.strip_prefix(kind));
    match rest.and_then(|rest| rest.split_once('_')) {
        // apt writes a plus as %2b.
        Some((version, _)) if name.ends_with(".deb") => Ok(version.replace("%2b", "+")),
        _ => bail!(
            "{} is no kernel package; `apt-get download linux-image-VERSION` brings one (from 7.x: \
             linux-binary-VERSION and linux-modules-VERSION)",
            package.display()
        ),
    }
}

fn unpack_one(version: String, packages: &[&Path]) -> Result<Kernel> {
    let folder = cache()?.join(&version);
    unpack_into(&folder, packages)?;
    let lib = folder.join("lib");
    if !lib.exists() {
        std::os::unix::fs::symlink("usr/lib", &lib)
            .with_context(|| format!("cannot link {}", lib.display()))?;
    }
    let modules = lib.join("modules").join(&version);
    if !modules.is_dir() {
        bail!(
            "the packages of {version} hold no modules; from 7.x on give linux-modules-{version}, \
             too"
        );
    }
    if !modules.join("modules.dep").exists() {
        output_of(Command::new("depmod").arg("-b").arg(&folder).arg(&version))?;
    }
    let files = [folder.join(format!("boot/vmlinuz-{version}")), modules.join("vmlinuz")];
    match files.into_iter().find(|file| file.is_file()) {
        Some(image) => Ok(Kernel { version, folder, image }),
        None => bail!(
            "the packages of {version} hold no vmlinuz; from 7.x on give linux-binary-{version}, \
             too"
        ),
    }
}

/// Unpacks packages that are not unpacked yet.
pub(crate) fn unpack_into(folder: &Path, packages: &[impl AsRef<Path>]) -> Result<()> {
    for package in packages.iter().map(AsRef::as_ref) {
        let mark = folder.join(package.file_name().unwrap_or_default()).with_extension("unpacked");
        if mark.exists() {
            continue;
        }
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        output_of(Command::new("dpkg-deb").arg("-x").arg(package).arg(folder))?;
        fs::write(&mark, "").with_context(|| format!("cannot write {}", mark.display()))?;
    }
    Ok(())
}

/// Where unpacked kernels are kept: 100 to 400 MB each.
pub(crate) fn cache() -> Result<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME says where kernels can be kept")?;
    Ok(base.join("syscollect-vm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_the_packages_name() {
        assert_eq!(
            version("a/linux-image-6.1.0-50-amd64_6.1.176-1_amd64.deb").unwrap(),
            "6.1.0-50-amd64"
        );
        assert_eq!(
            version("linux-modules-7.2.13%2bdeb14-amd64_7.2.13-1_amd64.deb").unwrap(),
            "7.2.13+deb14-amd64"
        );
        assert_eq!(version("linux-headers-6.1.0-50-amd64_6.1.176-1_amd64.deb"), None);
    }

    fn version(name: &str) -> Option<String> {
        version_of(Path::new(name)).ok()
    }
}
