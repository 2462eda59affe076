use super::*;
use proptest::prelude::*;
use std::path::Path;

fn usdt(text: &str) -> ProbeSelector {
    let Ok(Spec::Usdt(probe)) = Spec::usdt(text) else { panic!("{text}") };
    probe
}

fn zone(text: &str) -> ZoneSpec {
    match Spec::zone(text) {
        Ok(Spec::Zone(zone)) => zone,
        other => panic!("{text}: {other:?}"),
    }
}

fn spec_of(name: &str, kind: ArgumentKind) -> ArgumentSpec {
    ArgumentSpec { name: Some(name.to_owned()), kind }
}

#[test]
fn a_probe_has_a_provider_and_a_name_and_perhaps_a_file() {
    let plain = usdt("python:line");
    assert_eq!(
        (plain.file.clone(), plain.provider.as_str(), plain.name.as_str()),
        (None, "python", "line")
    );
    assert!(plain.matches("python", "line") && !plain.matches("python", "gc__start"));
    assert!(plain.matches_file(Path::new("/anything"), None));

    let path = usdt("/opt/a/libx.so:db:query__*");
    assert_eq!(path.file, Some(FileSelector::Path("/opt/a/libx.so".into())));
    assert!(path.matches("db", "query__start"));
    assert!(!path.matches_file(Path::new("/usr/lib/libx.so"), None));

    let library = usdt("libstdc++.so.6:*:throw");
    assert!(library.matches_file(Path::new("/lib/libstdc++.so.6.0.30"), Some("libstdc++.so.6")));
    assert!(library.matches_file(Path::new("/lib/libstdc++.so.6"), None));
    assert!(!library.matches_file(Path::new("/lib/libc.so.6"), Some("libc.so.6")));
}

#[test]
fn arguments_get_names_and_types_in_parentheses() {
    use ArgumentKind::{Auto, Integer, Text};
    let named = usdt("db:query(text:str, rows:int,kind,,:str)").arguments;
    let expected = [
        spec_of("text", Text),
        spec_of("rows", Integer),
        spec_of("kind", Auto),
        ArgumentSpec::default(),
        ArgumentSpec { name: None, kind: Text },
    ];
    assert_eq!(named, expected);
    assert!(usdt("db:query()").arguments.is_empty());
    assert_eq!([Auto, Integer, Text].map(ArgumentKind::text), [None, Some(false), Some(true)]);
}

#[test]
fn a_zones_end_may_leave_out_what_its_begin_has() {
    let short = zone("./libx.so:db:query__start..query__done");
    let [end] = &short.ends[..] else { panic!("{short}") };
    assert_eq!(end.file, Some(FileSelector::Path("./libx.so".into())));
    assert_eq!((end.provider.as_str(), end.name.as_str()), ("db", "query__done"));
    assert_eq!((short.named_by, short.nests), (None, None));
    assert_eq!(ends("db:a..other:b"), ["other:b"]);
}

/// The ends of a zone, as they are printed.
fn ends(text: &str) -> Vec<String> {
    zone(text).ends.iter().map(ToString::to_string).collect()
}

#[test]
fn a_zone_ends_with_whichever_of_its_ends_comes_first() {
    let transaction = "postgresql:transaction__start..transaction__commit|transaction__abort";
    assert_eq!(
        ends(transaction),
        ["postgresql:transaction__commit", "postgresql:transaction__abort"]
    );
    assert_eq!(zone(transaction).nests, Some(false), "a session has one transaction");
    assert_eq!(
        ends("lib.so:db:a..b(x) | other:c | ./bin/d:db:e"),
        ["lib.so:db:b(x)", "lib.so:other:c", "./bin/d:db:e"]
    );
    assert_eq!(
        ends("db:a..b|c|b,name=0"),
        ["db:b", "db:c"],
        "each once: what is attached twice would end two zones"
    );
    assert_eq!(ends("db:a(p|q:int)..b(r|s)"), ["db:b(r|s)"], "in parentheses it is a name");
    for text in ["db:a..b|", "db:a..|b", "db:a..b||c"] {
        assert!(matches!(Spec::zone(text), Err(SpecError::NoProbe(_))), "{text}");
    }
    assert!(matches!(Spec::zone("db:a..b|c*"), Err(SpecError::WildZone(_))));
    let many: Vec<String> = (0..17).map(|number| format!("e{number}")).collect();
    assert!(matches!(
        Spec::zone(&format!("db:a..{}", many.join("|"))),
        Err(SpecError::TooManyEnds(_))
    ));
}

#[test]
fn whether_zones_nest_is_said_by_the_user_or_known_or_left_to_the_recording() {
    assert_eq!(
        ["db:a..b", "db:a..b,nests=no", "db:a..b, nests = yes"].map(|text| zone(text).nests),
        [None, Some(false), Some(true)]
    );
    let python = "python:function__entry..function__return";
    assert_eq!(
        [python, &format!("{python},nests=no")].map(|text| zone(text).nests),
        [Some(true), Some(false)]
    );
    assert!(matches!(Spec::zone("db:a..b,nests=maybe"), Err(SpecError::Option(_))));
}

#[test]
fn the_argument_that_names_a_zone_is_printed_by_its_name() {
    assert_eq!(printed("db:a..b,name=arg3"), "db:a..db:b,name=arg3");
    assert_eq!(printed("db:a..b,name=3"), "db:a..db:b,name=arg3");
    assert_eq!(printed("db:a(x,query:str)..b,name=1"), "db:a(x,query:str)..db:b,name=query");
    assert_eq!(printed("db:a(arg1,query)..b,name=0"), "db:a(arg1,query)..db:b,name=arg1");
    assert_eq!(
        printed("db:a(arg1,)..b,name=1"),
        "db:a(arg1,)..db:b,name=1",
        "for that name is another's"
    );
    assert_eq!(
        printed("python:function__entry..function__return,name=filename"),
        "python:function__entry..python:function__return,name=filename"
    );
    assert_eq!(
        printed("python:function__entry..function__return"),
        "python:function__entry..python:function__return"
    );
    assert_eq!(printed("db:a..b|c,nests=no"), "db:a..db:b|db:c,nests=no");
}

fn printed(text: &str) -> String {
    zone(text).to_string()
}

#[test]
fn two_dots_in_a_path_part_no_zone() {
    let up = zone("../a/../libx.so:db:a../other..so:db:b");
    assert_eq!(up.begin.file, Some(FileSelector::Path("../a/../libx.so".into())));
    let full = zone("../libx.so:db:a..b");
    assert_eq!(full.begin.name.as_str(), "a");
    assert!(matches!(Spec::zone("../libx.so:db:a"), Err(SpecError::NoZone(_))));
}

#[test]
fn a_zone_is_named_by_an_argument_given_by_number_or_name() {
    assert_eq!(zone("db:a..b,name=2").named_by, Some(2));
    assert_eq!(zone("db:a..b,name=arg3").named_by, Some(3));
    assert_eq!(zone("db:a(x,query:str)..b(result),name=query").named_by, Some(1));
    let Err(error) = Spec::zone("db:a(x,query:str)..b,name=qeury") else { panic!() };
    assert!(error.to_string().ends_with("did you mean query?"), "{error}");
    assert!(matches!(Spec::zone("db:a..b,colour=red"), Err(SpecError::Option(_))));
}

#[test]
fn pythons_functions_name_their_zones_without_being_told() {
    assert_eq!(zone("python:function__entry..function__return").named_by, Some(1));
    assert_eq!(zone("python:function__entry..function__return,name=filename").named_by, Some(0));
    assert_eq!(zone("python:function__entry(,f)..function__return,name=f").named_by, Some(1));
}

#[test]
fn a_function_has_a_library_by_path_or_name() {
    let Ok(Spec::Function(spec)) = Spec::function("libc.so.6:fopen*") else { panic!() };
    assert!(spec.library.matches(Path::new("/lib/x86_64-linux-gnu/libc.so.6"), None));
    assert_eq!((spec.function.as_str(), spec.limit), ("fopen*", 1000));
    let Ok(Spec::Function(spec)) = Spec::function("/bin/server:Database::query(std::string)")
    else {
        panic!()
    };
    assert_eq!(spec.library, FileSelector::Path("/bin/server".into()));
    assert_eq!(spec.function.as_str(), "Database::query(std::string)");
}

#[test]
fn relative_paths_are_relative_to_the_users_folder() {
    for (text, expected) in [
        ("usdt bin/x:a:b", "usdt /home/me/bin/x:a:b"),
        ("usdt /bin/x:a:b", "usdt /bin/x:a:b"),
        ("usdt x.so:a:b", "usdt x.so:a:b"),
        ("zone bin/x:a:b..c", "zone /home/me/bin/x:a:b../home/me/bin/x:a:c"),
        ("function bin/x:f", "function /home/me/bin/x:f"),
    ] {
        let mut spec = Spec::line(text).unwrap();
        spec.set_folder(Path::new("/home/me"));
        assert_eq!(spec.to_string(), expected);
    }
}

#[test]
fn what_is_no_probe_says_what_one_looks_like() {
    for line in [
        "usdt python",
        "usdt :line",
        "usdt python:",
        "usdt /bin/x:line",
        "usdt :a:b",
        "usdt a:b c",
        "usdt",
    ] {
        assert!(reason(line).contains("is not PROVIDER:NAME"), "{line}: {}", reason(line));
    }
    for line in ["zone a:b", "zone a:b..", "zone ..a:b", "zone"] {
        assert!(reason(line).contains("is not BEGIN..END"), "{line}: {}", reason(line));
    }
    for line in ["function fopen", "function :fopen", "function libc:", "function foo::bar"] {
        assert!(reason(line).contains("is not LIBRARY:FUNCTION"), "{line}: {}", reason(line));
    }
    assert!(reason("zone a:b*..c").contains("wildcards"));
    for line in ["usdt a:b(", "usdt a:b(x", "usdt a:b(x)y", "usdt a:b((x))"] {
        assert!(reason(line).contains("in parentheses"), "{line}");
    }
    assert!(reason("usdt a:b(x:float)").contains("\"float\" is no type"));
    assert!(reason(&format!("usdt a:b({})", ",".repeat(32))).contains("more than 32 arguments"));
    assert!(reason("usdt a:[b").contains("without its `]`"));
    assert!(reason("trace a:b").contains("none of usdt, zone, function"));
}

fn reason(line: &str) -> String {
    Spec::line(line).unwrap_err().to_string()
}

#[test]
fn a_file_of_probes_has_comments_and_tells_the_line_of_a_mistake() {
    let text = "# our server\n\n  usdt python:line   # every line\nzone db:a..b,name=0\r\n\
                function libc.so.6:fopen*\n";
    let lines: Vec<String> = parse_file(text).unwrap().iter().map(Spec::to_string).collect();
    assert_eq!(
        lines,
        ["usdt python:line", "zone db:a..db:b,name=arg0", "function libc.so.6:fopen*"]
    );
    let error = parse_file("# x\nusdt a:b\n\nusdt a\n").unwrap_err();
    assert_eq!(error.line, 4);
    assert!(error.to_string().starts_with("line 4: \"a\" is not PROVIDER:NAME"));
    assert_eq!(parse_file(""), Ok(Vec::new()));
}

proptest! {
    #[test]
    fn no_text_is_a_panic(text in "(usdt |zone |function )?[-a-z0-9:.,()=*/# \\[]{0,40}") {
        let _ = parse_file(&text);
    }

    #[test]
    fn what_is_printed_reads_back_as_the_same(
        file in "(/[a-z.]{1,8}:|[a-z]{1,8}:)?",
        provider in "[a-z_]{1,8}",
        (name, end) in ("[a-z_]{1,8}", "[a-z_]{1,8}"),
        arguments in "(\\(([a-z]{1,4}(:str|:int)?,){0,3}[a-z]{1,3}\\))?",
        named_by in "(,name=(arg)?[0-9])?",
        more in "((\\|[a-z_]{1,8}){0,3})(,nests=(yes|no))?",
    ) {
        let begin = format!("{file}{provider}:{name}{arguments}");
        for text in [
            format!("usdt {begin}"),
            format!("zone {begin}..{end}{more}{named_by}"),
            format!("function lib:{name}*"),
        ] {
            let spec = Spec::line(&text).unwrap();
            prop_assert_eq!(Spec::line(&spec.to_string()).unwrap(), spec);
        }
    }
}
