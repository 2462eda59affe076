//! What a kernel offers, asked of the program itself.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;

/// What this kernel offers this user, as `doctor` says it.
#[derive(Default)]
pub(crate) struct Offered(Value);

impl Offered {
    /// A doctor that cannot speak withholds nothing: the tests will tell.
    pub(crate) fn of(syscollect: &Path) -> Self {
        let output = Command::new(syscollect).args(["doctor", "--json"]).output();
        let json =
            output.context("doctor").and_then(|output| Ok(serde_json::from_slice(&output.stdout)?));
        Self(json.unwrap_or_default())
    }

    /// Why a test cannot be asked for, if it cannot.
    pub(crate) fn lacks(&self, needs: &[&str]) -> Option<String> {
        let capabilities = self.0["capabilities"].as_array()?;
        let missing = capabilities.iter().find(|capability| {
            let asked = capability["required"] == true
                || needs.iter().any(|need| capability["name"] == *need);
            asked && capability["available"] == false
        })?;
        let [name, reason] =
            ["name", "reason"].map(|key| missing[key].as_str().unwrap_or_default());
        Some(format!("{name}: {reason}"))
    }

    /// Whether a capability is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        let capabilities = self.0["capabilities"].as_array();
        !capabilities
            .into_iter()
            .flatten()
            .any(|capability| capability["name"] == name && capability["available"] == false)
    }
}
