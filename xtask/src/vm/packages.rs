//! Debian's kernels, found and brought by an apt configuration of its own, so
//! that the host's sources and lists stay as they are.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::INSTALL;
use super::kernel::unpack_into;
use crate::process::output_of;

/// The suites that carry kernels, from 5.10 on.
const SUITES: [&str; 6] = ["bullseye", "bookworm", "trixie", "trixie-backports", "forky", "sid"];
/// How long lists are good for.
const FRESH: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// Packages of kernels, by release.
pub(crate) struct Packages {
    folder: PathBuf,
    /// Names like `linux-image-6.1.0-50-amd64`.
    images: Vec<String>,
}

impl Packages {
    /// Reads the lists of packages, and brings them where they are missing or a day old.
    pub(crate) fn open(cache: &Path) -> Result<Self> {
        let folder = cache.join("apt");
        configure(&folder)?;
        let mut packages = Self { folder, images: Vec::new() };
        let mark = packages.folder.join("updated");
        let at = fs::metadata(&mark).and_then(|mark| mark.modified());
        // What is marked is of these suites, and not of fewer.
        let is_fresh = at.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < FRESH))
            && fs::read_to_string(&mark).is_ok_and(|suites| suites == SUITES.join(" "));
        if !is_fresh {
            // A suite that is gone must not hide the others.
            let updated = packages.apt("apt-get").args(["-qq", "update"]).output();
            updated.with_context(|| format!("cannot start apt-get ({INSTALL})"))?;
            fs::write(&mark, SUITES.join(" "))
                .with_context(|| format!("cannot write {}", mark.display()))?;
        }
        packages.images = packages.search("^linux-image-[0-9].*-amd64$")?;
        if packages.images.is_empty() {
            let _ = fs::remove_file(&mark);
            bail!(
                "no kernel package was found: is Debian's archive (deb.debian.org) within reach?"
            );
        }
        Ok(packages)
    }

    /// Brings the newest kernel of a release like `6.1`, or of the nearest there is; the files.
    pub(crate) fn bring(&self, release: &str) -> Result<Vec<PathBuf>> {
        let wanted =
            number(release).with_context(|| format!("{release} is no kernel release like 6.1"))?;
        let nearest =
            self.images.iter().filter_map(|image| Some((image, number(version(image)?)?)));
        let nearest =
            nearest.min_by_key(|(image, found)| (distance(wanted, *found), Reverse(parts(image))));
        let (image, _) = nearest.context("there is no kernel package")?;
        let version = version(image).unwrap_or_default();
        let mut names = vec![image.clone()];
        // From 7.x on the image is in three packages.
        for kind in ["linux-binary", "linux-modules"] {
            names.extend(self.search(&format!("^{kind}-{}$", version.replace('+', "[+]")))?);
        }
        names.iter().map(|name| self.download(name)).collect()
    }

    /// Brings what modules of a kernel are built with; the files.
    pub(crate) fn headers(&self, version: &str) -> Result<Vec<PathBuf>> {
        let name = format!("linux-headers-{version}");
        let output = output_of(self.apt("apt-cache").args(["show", "--no-all-versions", &name]));
        let output = output.with_context(|| format!("Debian's archive has no {name}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut names = needed_by_headers(&text);
        names.push(name);
        names.iter().map(|name| self.download(name)).collect()
    }

    /// Brings the newest C library, for programs of releases newer than the host's; its folder.
    pub(crate) fn libc(&self) -> Result<PathBuf> {
        let folder = self.folder.join("libc");
        unpack_into(&folder, &[self.download("libc6")?])?;
        Ok(folder.join("usr/lib/x86_64-linux-gnu"))
    }

    fn download(&self, name: &str) -> Result<PathBuf> {
        let here = self.folder.join("packages");
        fs::create_dir_all(&here).with_context(|| format!("cannot create {}", here.display()))?;
        let prefix = format!("{name}_");
        if let Some(path) = downloaded(&here, &prefix) {
            return Ok(path);
        }
        output_of(self.apt("apt-get").current_dir(&here).args(["-qq", "download", name]))?;
        downloaded(&here, &prefix).with_context(|| format!("apt-get brought no {name}"))
    }

    /// Names of packages, without those of special builds.
    fn search(&self, pattern: &str) -> Result<Vec<String>> {
        let output = output_of(self.apt("apt-cache").args(["search", "--names-only", pattern]))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let names = text.lines().filter_map(|line| line.split_whitespace().next());
        let special = ["-cloud-", "-rt-", "-dbg", "-unsigned"];
        Ok(names
            .filter(|name| !special.iter().any(|word| name.contains(word)))
            .map(str::to_owned)
            .collect())
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", self.folder.join("apt.conf"));
        command
    }
}

/// What headers need beside a compiler, as apt-cache shows them.
fn needed_by_headers(shown: &str) -> Vec<String> {
    let needed = shown.lines().find_map(|line| line.strip_prefix("Depends: ")).unwrap_or_default();
    let names = needed.split(',').filter_map(|one| one.split_whitespace().next());
    names
        .filter(|name| name.ends_with("-common") || name.starts_with("linux-kbuild-"))
        .map(str::to_owned)
        .collect()
}

fn configure(folder: &Path) -> Result<()> {
    for inner in ["state/lists/partial", "cache/archives/partial", "etc"] {
        let inner = folder.join(inner);
        fs::create_dir_all(&inner).with_context(|| format!("cannot create {}", inner.display()))?;
    }
    let sources: String = SUITES
        .iter()
        .map(|suite| format!("deb [arch=amd64] http://deb.debian.org/debian {suite} main\n"))
        .collect();
    let place = folder.display();
    let configuration = format!(
        "Dir::State \"{place}/state\"; Dir::State::status \"{place}/state/status\"; Dir::Cache \
         \"{place}/cache\";\n\
         Dir::Etc::sourcelist \"{place}/etc/sources.list\"; Dir::Etc::sourceparts \"-\"; \
         Dir::Etc::preferencesparts \"-\";\n\
         APT::Architecture \"amd64\"; Acquire::Languages \"none\"; APT::Sandbox::User \"root\";\n"
    );
    for (file, text) in [
        ("etc/sources.list", sources),
        ("state/status", String::new()),
        ("apt.conf", configuration),
    ] {
        let file = folder.join(file);
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// The version in a package's name.
fn version(image: &str) -> Option<&str> {
    image.strip_prefix("linux-image-")
}

/// Major and minor number.
/// The package in the folder whose name begins so.
fn downloaded(folder: &Path, prefix: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|kind| kind == "deb")).find(|path| {
        path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(prefix))
    })
}

fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// All numbers of a version, for which is newer.
fn parts(version: &str) -> Vec<u32> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

fn distance(a: (u32, u32), b: (u32, u32)) -> (u32, u32) {
    (a.0.abs_diff(b.0), a.1.abs_diff(b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_bring_what_is_common_and_the_tools_but_no_compiler() {
        let shown = "Package: linux-headers-6.1.0-50-amd64\n\
                     Depends: linux-headers-6.1.0-50-common (= 6.1.176-1), linux-kbuild-6.1 (>= \
                     6.1.176-1), linux-compiler-gcc-12-x86\n";
        assert_eq!(needed_by_headers(shown), ["linux-headers-6.1.0-50-common", "linux-kbuild-6.1"]);
    }

    #[test]
    fn the_newest_kernel_of_a_release_or_the_nearest_one_is_taken() {
        let names = ["5.10.0-30", "5.10.0-32", "6.1.0-47", "6.12.107+deb13", "7.2.13+deb14"];
        let images: Vec<String> =
            names.iter().map(|name| format!("linux-image-{name}-amd64")).collect();
        for (release, expected) in [
            ("5.10", "linux-image-5.10.0-32-amd64"),
            ("6.18", "linux-image-6.12.107+deb13-amd64"),
            ("7.2", "linux-image-7.2.13+deb14-amd64"),
        ] {
            let wanted = number(release).unwrap();
            let nearest = images.iter().min_by_key(|image| {
                let found = number(version(image).unwrap()).unwrap();
                (distance(wanted, found), Reverse(parts(image)))
            });
            assert_eq!(nearest.unwrap(), expected);
        }
    }
}
