//! What is known of widespread probes: their arguments' names and kinds, and what names a zone.

use crate::spec::{ArgumentKind, ArgumentSpec};

/// What is known of a probe.
struct Preset {
    provider: &'static str,
    names: &'static [&'static str],
    arguments: &'static [(&'static str, ArgumentKind)],
    named_by: Option<u8>,
    /// Whether zones that begin with it nest; `None` where that is not known.
    nests: Option<bool>,
}

use ArgumentKind::{Integer, Text};

const PRESETS: &[Preset] = &[
    // https://docs.python.org/3.11/howto/instrumentation.html
    Preset {
        provider: "python",
        names: &["function__entry", "function__return", "line"],
        arguments: &[("filename", Text), ("function", Text), ("line", Integer)],
        named_by: Some(1),
        nests: Some(true),
    },
    Preset {
        provider: "python",
        names: &["gc__start"],
        arguments: &[("generation", Integer)],
        named_by: None,
        nests: Some(false),
    },
    Preset {
        provider: "python",
        names: &["gc__done"],
        arguments: &[("collected", Integer)],
        named_by: None,
        nests: None,
    },
    Preset {
        provider: "python",
        names: &["import__find__load__start"],
        arguments: &[("module", Text)],
        named_by: Some(0),
        nests: Some(true),
    },
    Preset {
        provider: "python",
        names: &["import__find__load__done"],
        arguments: &[("module", Text), ("found", Integer)],
        named_by: Some(0),
        nests: None,
    },
    Preset {
        provider: "python",
        names: &["audit"],
        arguments: &[("event", Text), ("arguments", Integer)],
        named_by: Some(0),
        nests: None,
    },
    // libstdc++'s manual, "Static probes".
    Preset {
        provider: "libstdcxx",
        names: &["throw", "catch", "rethrow"],
        arguments: &[("object", Integer), ("type_info", Integer)],
        named_by: None,
        nests: None,
    },
    // https://www.postgresql.org/docs/current/dynamic-trace.html: a session has one transaction,
    // and runs one query.
    Preset {
        provider: "postgresql",
        names: &["transaction__start", "transaction__commit", "transaction__abort"],
        arguments: &[("transaction", Integer)],
        named_by: None,
        nests: Some(false),
    },
    Preset {
        provider: "postgresql",
        names: &["query__start", "query__done"],
        arguments: &[("query", Text)],
        named_by: None,
        nests: Some(false),
    },
];

/// What is known of the arguments of a probe, from the first one on.
pub(crate) fn known_arguments(provider: &str, name: &str) -> Vec<ArgumentSpec> {
    let spec =
        |&(name, kind): &(&str, ArgumentKind)| ArgumentSpec { name: Some(name.to_owned()), kind };
    find(provider, name).map_or_else(Vec::new, |preset| preset.arguments.iter().map(spec).collect())
}

/// The argument that best names what begins with a probe.
pub(crate) fn known_name(provider: &str, name: &str) -> Option<u8> {
    find(provider, name)?.named_by
}

/// Whether a zone that begins with a probe may begin within another such.
pub(crate) fn known_nesting(provider: &str, name: &str) -> Option<bool> {
    find(provider, name)?.nests
}

fn find(provider: &str, name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.provider == provider && preset.names.contains(&name))
}
