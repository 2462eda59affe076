//! The view of functions, and of who called one.

use super::lines;
use super::rows::{Column, Selection, Subject};
use super::tests::{SECOND, cost, same, screen_of, second};
use super::view::{Recorded, Request, View};
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::VecDeque;
use std::sync::Arc;
use syscollect_activity::{Functions, Interval, StackWeight};
use syscollect_model::{BuildId, Symbol, SymbolFrame, SymbolTable, is_unprintable};

const SERVER: &str = "/usr/bin/server";
const LIBC: &str = "/lib/libc.so.6";

struct Screen {
    history: VecDeque<Arc<Interval>>,
    functions: Functions,
    view: View,
}

impl Screen {
    fn new() -> Self {
        let weight = |samples, blocked| StackWeight { samples, blocked };
        let (mut functions, of) = Functions::of_stacks(&[
            (40, &[(SERVER, 1), (SERVER, 2), (SERVER, 3)], weight(60, 0)),
            (40, &[(SERVER, 1), (SERVER, 2), (LIBC, 4)], weight(12, 0)),
            (40, &[(SERVER, 1), (SERVER, 2), (LIBC, 5), ("kernel", 6)], weight(7, 0)),
            (
                40,
                &[(SERVER, 1), (SERVER, 7), (LIBC, 8), ("kernel", 9), ("kernel", 10)],
                weight(0, SECOND / 5 * 4),
            ),
            (200, &[("/usr/bin/other", 0x4711)], weight(3, SECOND)),
        ]);
        for (path, names) in [
            (SERVER, &[(1, "main"), (2, "serve"), (3, "parse"), (7, "accept_next")][..]),
            (LIBC, &[(4, "memcpy"), (5, "read"), (8, "epoll_wait")]),
            ("[kernel.kallsyms]", &[(6, "vfs_read"), (9, "ep_poll"), (10, "schedule")]),
        ] {
            functions.add_names(&[table(path, names)]);
        }
        let of = Interval { functions: Some(Arc::new(of)), ..second(0) };
        Self { history: [Arc::new(of)].into(), functions, view: View::default() }
    }

    fn recorded(&self) -> Recorded<'_> {
        Recorded { history: &self.history, functions: &self.functions }
    }

    fn key(&mut self, code: KeyCode) -> Option<Request> {
        let Self { history, functions, view } = self;
        view.key(KeyEvent::new(code, KeyModifiers::NONE), Recorded { history, functions })
    }

    fn press(&mut self, codes: &[KeyCode]) {
        for code in codes {
            self.key(*code);
        }
    }

    fn keys(&mut self, keys: &str) {
        for char in keys.chars() {
            self.key(KeyCode::Char(char));
        }
    }

    fn draw(&mut self, size: [u16; 2]) -> String {
        let Self { history, functions, view } = self;
        screen_of(Recorded { history, functions }, view, size)
    }

    fn names(&mut self) -> Vec<String> {
        let Self { history, functions, view } = self;
        let rows = view.rows(Recorded { history, functions }, &history[0], 10);
        rows.into_iter().map(|row| row.name).collect()
    }
}

fn table(path: &str, names: &[(u64, &str)]) -> SymbolTable {
    let symbol = |(offset, name): &(u64, &str)| Symbol {
        offset: *offset,
        frames: vec![SymbolFrame { function: (*name).into(), ..SymbolFrame::default() }],
        ..Symbol::default()
    };
    SymbolTable {
        path: path.into(),
        build_id: BuildId::default(),
        symbols: names.iter().map(symbol).collect(),
        ..SymbolTable::default()
    }
}

#[test]
fn functions_and_who_called_the_one_that_is_marked() {
    let mut screen = Screen::new();
    assert_eq!(screen.key(KeyCode::Char('f')), Some(Request::Functions));
    same("functions-80x24", &screen.draw([80, 24]));
    assert_eq!(screen.names()[0], "parse");
    screen.keys(">");
    assert_eq!((screen.view.selection.sort, &*screen.names()[0]), (Column::CpuAll, "main"));
    screen.keys(">");
    assert_eq!(screen.names()[..2], ["other+0x4711", "epoll_wait"], "the program's own, blocked");
    screen.press(&[KeyCode::Down, KeyCode::Down, KeyCode::Enter]);
    assert_eq!(
        screen.names(),
        [
            "epoll_wait",
            "-- called by:",
            "  accept_next",
            "    main",
            "-- calls:",
            "  ep_poll",
            "    schedule"
        ]
    );
    screen.key(KeyCode::Esc);
    assert_eq!(screen.view.selection.subject, Subject::Functions);
    screen.keys("/SERVE");
    screen.key(KeyCode::Enter);
    assert_eq!(screen.names().len(), 4, "names, and files");
    screen.keys("f<");
    screen.keys("<");
    screen.press(&[KeyCode::Home, KeyCode::Down, KeyCode::Enter]);
    same("calls-120x40", &screen.draw([120, 40]));
    assert!(screen.draw([120, 40]).contains("calls"), "{}", screen.draw([120, 40]));
}

#[test]
fn the_marked_thread_says_in_which_function_it_is_blocked() {
    let mut screen = Screen::new();
    let mut details = |filter| {
        screen.keys("t/");
        screen.keys(filter);
        screen.press(&[KeyCode::Enter, KeyCode::Home]);
        let drawn = screen.draw([80, 24]);
        screen.key(KeyCode::Esc);
        drawn.lines().nth(22).unwrap().to_owned()
    };
    let blocked = "200 worker/200: blocked in other+0x4711 (other), of process 200, 600 switches";
    assert!(details("worker/200").starts_with(blocked), "{}", details("worker/200"));
    assert!(!details("client").contains("blocked"), "{}", details("client"));
}

#[test]
fn functions_of_the_marked_process_and_back() {
    let mut screen = Screen::new();
    screen.keys("p");
    screen.key(KeyCode::Down);
    screen.keys("f");
    let drawn = screen.draw([80, 24]);
    assert!(drawn.contains("functions of process 40") && !drawn.contains("0x4711"), "{drawn}");
    screen.key(KeyCode::Esc);
    assert_eq!(screen.view.selection.subject, Subject::Processes);
}

#[test]
fn names_of_functions_and_files_do_nothing_to_the_terminal() {
    let mut screen = Screen::new();
    let hostile = "\u{1b}[2J\n\u{9b}m\u{202e}";
    let file: &str = "/tmp/\u{1b}]0;x\u{7}";
    let weight = StackWeight { samples: 99, blocked: 7 };
    let (mut functions, of) = Functions::of_stacks(&[(1, &[(file, 1), (file, 2)], weight)]);
    functions.add_names(&[table(file, &[(1, hostile)])]);
    let of = Interval { functions: Some(Arc::new(of)), ..second(0) };
    (screen.history, screen.functions) = ([Arc::new(of)].into(), functions);
    screen.keys("f");
    for code in [KeyCode::Down, KeyCode::Enter, KeyCode::Down, KeyCode::Down, KeyCode::Down] {
        screen.key(code);
        for size in [[80, 24], [120, 40], [20, 9]] {
            let drawn = screen.draw(size);
            let obeyed = drawn.chars().find(|char| is_unprintable(*char) && *char != '\n');
            assert_eq!(obeyed, None, "{drawn:?}");
        }
    }
    let selection = Selection { subject: Subject::Functions, ..Selection::default() };
    let printed = lines::text(screen.recorded(), &screen.history[0], &cost(), &selection, 100);
    assert!(!printed.chars().any(|char| is_unprintable(char) && char != '\n'), "{printed:?}");
}

#[test]
fn any_size_is_drawn_without_a_fault_also_where_nothing_is_counted_yet() {
    let mut screen = Screen::new();
    for counted in [true, false] {
        if !counted {
            screen.history = [Arc::new(second(0))].into();
        }
        for width in [0, 1, 20, 39, 53, 200] {
            for height in [0, 1, 5, 9, 60] {
                screen.view = View::default();
                screen.keys("f");
                screen.press(&[KeyCode::End, KeyCode::Enter]);
                screen.draw([width, height]);
            }
        }
    }
    screen.view = View::default();
    screen.keys("f");
    let drawn = screen.draw([80, 24]);
    assert!(drawn.contains("counted from when they are asked for"), "{drawn}");
}
