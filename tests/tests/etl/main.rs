//! Windows traces from file to viewer: what is told of the fixtures, what becomes
//! of stacks, damage, and golden exports.
#![allow(clippy::unwrap_used, reason = "the helpers of the tests may panic as the tests do")]

mod checked;
mod damage;
mod every_kind;
mod fixtures;
mod golden;
mod incomplete;
mod manifests;
mod random;
mod scenarios;

use syscollect_etl::session::Session;
use syscollect_tests::etl;

/// A fixture, opened.
fn open(name: &str) -> Session {
    Session::from_bytes(vec![etl::fixture(name)]).unwrap()
}
