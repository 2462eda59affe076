//! How much of a file is there: what a logger's mode makes of its count and its numbers.

use syscollect_etl::file::{Extent, Trace};
use syscollect_tests::etl::{FakeTrace, perf_info};

const STRIDE: usize = 4096;
/// Where a file says how many buffers were written.
const WRITTEN: usize = 0x48 + 32 + 0x24;
/// `LogFileMode`.
const CIRCULAR: u32 = 2;
const NEW_FILE: u32 = 8;
const PREALLOCATED: u32 = 0x20;
const KIBIBYTES: u32 = 0x2000;

/// A trace of so many buffers, the one with the header among them.
fn trace(buffers: usize) -> FakeTrace {
    let mut trace = FakeTrace::new(2);
    for number in 1..buffers as u64 {
        trace
            .record((number % 2) as u16, &perf_info(FakeTrace::START + number, 5, 36, 4, &[7; 24]));
        trace.flush((number % 2) as u16);
    }
    trace.header[0x10..0x18].copy_from_slice(&(FakeTrace::START_TIME + 1).to_le_bytes());
    trace
}

/// The same of a mode, with room for so many buffers.
fn of_mode(mut trace: FakeTrace, mode: u32, room: usize) -> FakeTrace {
    trace.header[0x1c..0x20].copy_from_slice(&((room * STRIDE / 1024) as u32).to_le_bytes());
    trace.header[0x20..0x24].copy_from_slice(&(mode | KIBIBYTES).to_le_bytes());
    trace
}

/// The same, and its header says how many buffers were written.
fn saying(mut trace: FakeTrace, buffers_written: u32) -> FakeTrace {
    trace.buffers_written = Some(buffers_written);
    trace
}

/// Missing and unwritten buffers.
fn lacking(file: Vec<u8>) -> (u64, u64) {
    let trace = Trace::from_bytes(vec![file]).expect("a trace");
    let Extent { missing, unwritten, .. } = trace.extents()[0];
    let statistics = trace.scan(|_, _| ());
    assert_eq!((statistics.missing_buffers, statistics.unwritten_buffers), (missing, unwritten));
    assert_eq!(statistics.is_complete(), missing + unwritten + statistics.stray_bytes == 0);
    (missing, unwritten)
}

/// Gives a buffer of a file another number.
fn renumber(file: &mut [u8], place: usize, number: u64) {
    file[place * STRIDE + 0x18..][..8].copy_from_slice(&number.to_le_bytes());
}

#[test]
fn a_whole_file_lacks_nothing_and_a_shorter_one_what_was_cut_off() {
    let whole = trace(8).finish();
    assert_eq!(lacking(whole.clone()), (0, 0));
    for kept in 1..8 {
        assert_eq!(lacking(whole[..kept * STRIDE].to_vec()), (8 - kept as u64, 0));
    }
    // A part of a buffer is there, and damaged.
    assert_eq!(lacking(whole[..5 * STRIDE + 100].to_vec()).0, 2);
}

#[test]
fn zeros_in_place_of_a_buffer_are_missing_and_zeros_behind_the_last_were_never_written() {
    let whole = trace(8).finish();
    let mut holed = whole.clone();
    holed[3 * STRIDE..5 * STRIDE].fill(0);
    assert_eq!(lacking(holed), (2, 0));
    let mut preallocated = of_mode(trace(8), PREALLOCATED, 16).finish();
    preallocated.resize(16 * STRIDE, 0);
    assert_eq!(lacking(preallocated), (0, 0));
}

#[test]
fn a_number_that_no_buffer_has_is_no_loss_where_the_count_is_right() {
    let mut whole = trace(8).finish();
    // A buffer in which nothing lay was never written.
    renumber(&mut whole, 7, 9);
    assert_eq!(lacking(whole), (0, 0));
}

#[test]
fn what_a_logger_that_runs_holds_in_memory_is_not_written_and_not_damaged() {
    assert_eq!(lacking(running().finish()), (0, 0));
    let mut file = running().finish();
    renumber(&mut file, 7, 9);
    assert_eq!(lacking(file), (0, 2));
    let mut holed = running().finish();
    holed[3 * STRIDE..4 * STRIDE].fill(0);
    assert_eq!(lacking(holed), (1, 0), "between two buffers there was one");
    let mut wild = running().finish();
    renumber(&mut wild, 7, u64::MAX);
    assert!(lacking(wild).1 <= 4096, "what no logger can hold is no count");
}

fn running() -> FakeTrace {
    saying(trace(8), 0)
}

/// A circular file of eight buffers, when it has gone round: the header, buffers 11 and 12, and 6
/// to 10.
fn went_round() -> Vec<u8> {
    let mut file = of_mode(saying(trace(8), 13), CIRCULAR, 8).finish();
    [11, 12, 6, 7, 8, 9, 10]
        .into_iter()
        .zip(1..)
        .for_each(|(number, place)| renumber(&mut file, place, number));
    file
}

#[test]
fn a_circular_file_that_went_round_lacks_what_was_cut_off_and_not_what_it_overwrote() {
    assert_eq!(lacking(went_round()), (0, 0));
    assert_eq!(lacking(went_round()[..6 * STRIDE].to_vec()), (2, 0));
    let mut holed = went_round();
    holed[5 * STRIDE..6 * STRIDE].fill(0);
    assert_eq!(lacking(holed), (1, 0));
    // One that did not yet go round is like any other.
    let short = of_mode(trace(8), CIRCULAR, 16).finish();
    assert_eq!(lacking(short.clone()), (0, 0));
    assert_eq!(lacking(short[..6 * STRIDE].to_vec()), (2, 0));
}

#[test]
fn a_circular_file_of_a_logger_that_runs_lacks_nothing_that_can_be_told() {
    let mut file = went_round();
    file[WRITTEN..WRITTEN + 4].fill(0);
    assert_eq!(lacking(file), (0, 0));
}

#[test]
fn the_second_of_a_loggers_files_may_count_the_buffers_of_the_first() {
    // Eight in each: this one's header, and those from 12 to 18.
    assert_eq!(lacking(numbered(19)), (0, 0));
    assert_eq!(lacking(numbered(19)[..6 * STRIDE].to_vec()), (2, 0));
    assert_eq!(lacking(second_file(8).finish()), (0, 0), "or only its own");
    assert_eq!(lacking(second_file(8).finish()[..6 * STRIDE].to_vec()), (2, 0));
}

fn numbered(written: u32) -> Vec<u8> {
    let mut file = second_file(written).finish();
    (1..8).for_each(|place| renumber(&mut file, place, 11 + place as u64));
    file
}

fn second_file(written: u32) -> FakeTrace {
    of_mode(saying(trace(8), written), NEW_FILE, 12)
}
