//! Reads profiles of the Firefox Profiler as its documentation describes them,
//! with no knowledge of the writer. The viewer accepts broken tables (a function
//! silently vanishes), so everything is checked here: lengths of columns, every
//! index, the order of rows.

use serde_json::Value;
use std::collections::BTreeMap;

/// A profile whose tables are sound.
pub(crate) struct Profile {
    pub(crate) json: Value,
}

/// One frame of a stack, as the viewer shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) function: String,
    pub(crate) category: String,
    pub(crate) lib: Option<String>,
    /// Source file and line.
    pub(crate) place: Option<(String, u64)>,
    pub(crate) inline_depth: u64,
}

/// A row of a thread's samples.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    /// Milliseconds.
    pub(crate) time: f64,
    /// Innermost first.
    pub(crate) stack: Vec<Frame>,
    pub(crate) weight: u64,
    pub(crate) cpu_ns: u64,
}

impl Sample {
    /// Whether it was taken on a CPU.
    pub(crate) fn on_cpu(&self) -> bool {
        self.weight > 0 && self.stack.first().is_some_and(|frame| frame.category != "Off-CPU")
    }
}

/// A marker of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marker<'a> {
    pub(crate) name: &'a str,
    pub(crate) category: &'a str,
    pub(crate) start: f64,
    pub(crate) end: Option<f64>,
    pub(crate) data: &'a Value,
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

/// An index, or nothing where the format allows that.
fn index(value: &Value) -> Option<usize> {
    if value.is_null() || value.as_i64() == Some(-1) {
        return None;
    }
    Some(usize::try_from(value.as_u64().unwrap_or_else(|| panic!("{value} is no index"))).unwrap())
}

/// Every column is as long as the table says; `required` ones are there.
fn table(table: &Value, required: &[&str]) -> usize {
    let length = table["length"].as_u64().unwrap() as usize;
    for name in required {
        assert!(table[name].is_array(), "column {name} is missing");
    }
    for (name, column) in table.as_object().unwrap().iter().filter(|(_, column)| column.is_array())
    {
        assert_eq!(list(column).len(), length, "column {name}");
    }
    length
}

fn points_into(column: &Value, length: usize, may_be_none: bool) {
    for value in list(column) {
        match index(value) {
            Some(index) => assert!(index < length, "{index} is beyond {length} rows"),
            None => assert!(may_be_none, "an index is missing"),
        }
    }
}

impl Profile {
    /// Reads a file and checks all that the viewer relies on.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let profile = Self { json: serde_json::from_slice(bytes).unwrap() };
        assert_eq!(profile.json["meta"]["preprocessedProfileVersion"], 63);
        profile.check_shared();
        profile.check_schemas();
        let mut tids = std::collections::BTreeSet::new();
        for thread in profile.threads() {
            profile.check_thread(thread);
            assert!(
                tids.insert(thread["tid"].as_str().unwrap()),
                "two threads have id {}",
                thread["tid"]
            );
        }
        profile.check_processes();
        profile.check_counters();
        profile
    }

    pub(crate) fn threads(&self) -> &Vec<Value> {
        list(&self.json["threads"])
    }

    /// The thread of this id.
    pub(crate) fn thread(&self, tid: &str) -> &Value {
        self.threads()
            .iter()
            .find(|thread| thread["tid"] == tid)
            .unwrap_or_else(|| panic!("no thread {tid}"))
    }

    fn shared(&self) -> &Value {
        &self.json["shared"]
    }

    pub(crate) fn string(&self, row: &Value) -> &str {
        self.shared()["stringArray"][index(row).unwrap()].as_str().unwrap()
    }

    fn check_shared(&self) {
        let shared = self.shared();
        let strings = list(&shared["stringArray"]).len();
        let libs = list(&self.json["libs"]).len();
        let sources = table(
            &shared["sources"],
            &["id", "filename", "startLine", "startColumn", "sourceMapURL"],
        );
        points_into(&shared["sources"]["filename"], strings, false);
        let resources = table(&shared["resourceTable"], &["lib", "name", "host", "type"]);
        points_into(&shared["resourceTable"]["lib"], libs, true);
        points_into(&shared["resourceTable"]["name"], strings, false);
        let natives =
            table(&shared["nativeSymbols"], &["libIndex", "address", "name", "functionSize"]);
        points_into(&shared["nativeSymbols"]["libIndex"], libs, false);
        points_into(&shared["nativeSymbols"]["name"], strings, false);
        let functions = &shared["funcTable"];
        let columns =
            ["name", "isJS", "relevantForJS", "resource", "source", "lineNumber", "columnNumber"];
        let function_count = table(functions, &columns);
        points_into(&functions["name"], strings, false);
        points_into(&functions["resource"], resources, true);
        points_into(&functions["source"], sources, true);
        let frames = &shared["frameTable"];
        let columns = [
            "address",
            "inlineDepth",
            "category",
            "subcategory",
            "func",
            "nativeSymbol",
            "innerWindowID",
        ];
        let frame_count = table(frames, &[&columns[..], &["line", "column"]].concat());
        points_into(&frames["func"], function_count, false);
        points_into(&frames["nativeSymbol"], natives, true);
        let categories = list(&self.json["meta"]["categories"]);
        assert!(
            categories.iter().any(|category| category["color"] == "grey"),
            "the default category is grey"
        );
        for (category, subcategory) in
            list(&frames["category"]).iter().zip(list(&frames["subcategory"]))
        {
            let names = list(&categories[index(category).unwrap()]["subcategories"]);
            assert!(index(subcategory).unwrap() < names.len());
        }
        table(&shared["stackTable"], &["prefix", "frame"]);
        points_into(&shared["stackTable"]["frame"], frame_count, false);
        for (row, prefix) in list(&shared["stackTable"]["prefix"]).iter().enumerate() {
            assert!(
                index(prefix).is_none_or(|prefix| prefix < row),
                "callers come before what they call"
            );
        }
    }

    /// Schemas have names of their own, and so do the fields of each.
    fn check_schemas(&self) {
        let schemas = list(&self.json["meta"]["markerSchema"]);
        unique(schemas, "name");
        for schema in schemas {
            let fields = list(&schema["fields"]);
            unique(fields, "key");
            if let Some(color) = schema["colorField"].as_str() {
                assert!(fields.iter().any(|field| field["key"] == color));
            }
        }
    }

    fn check_thread(&self, thread: &Value) {
        let shared = self.shared();
        let (stacks, strings) =
            (shared["stackTable"]["length"].as_u64().unwrap() as usize, &shared["stringArray"]);
        let samples = &thread["samples"];
        table(samples, &["stack", "timeDeltas", "weight", "threadCPUDelta"]);
        points_into(&samples["stack"], stacks, true);
        let mut time = 0.0;
        for (delta, cpu) in
            list(&samples["timeDeltas"]).iter().zip(list(&samples["threadCPUDelta"]))
        {
            assert!(delta.as_f64().unwrap() >= 0.0, "samples are in order");
            assert!(cpu.as_u64().is_some());
            time += delta.as_f64().unwrap();
        }
        let end = self.json["meta"]["profilingEndTime"].as_f64().unwrap();
        assert!(
            time < end,
            "the viewer leaves out the sample at {time}, as the profile ends at {end}"
        );
        let markers = &thread["markers"];
        table(markers, &["data", "name", "startTime", "endTime", "phase", "category"]);
        points_into(&markers["name"], list(strings).len(), false);
        points_into(&markers["category"], list(&self.json["meta"]["categories"]).len(), false);
        let schemas: BTreeMap<&str, &Value> = list(&self.json["meta"]["markerSchema"])
            .iter()
            .map(|schema| (schema["name"].as_str().unwrap(), &schema["fields"]))
            .collect();
        for row in 0..list(&markers["data"]).len() {
            let needs = match markers["phase"][row].as_u64().unwrap() {
                0 | 2 => (true, false),
                1 => (true, true),
                other => panic!("phase {other}"),
            };
            assert_eq!(
                (markers["startTime"][row].is_number(), markers["endTime"][row].is_number()),
                needs
            );
            self.check_marker(&markers["data"][row], &schemas, stacks);
        }
    }

    fn check_marker(&self, data: &Value, schemas: &BTreeMap<&str, &Value>, stacks: usize) {
        let fields = list(schemas[data["type"].as_str().unwrap()]);
        for (key, value) in data.as_object().unwrap().iter().filter(|(key, _)| *key != "type") {
            if key == "cause" {
                assert!(index(&value["stack"]).unwrap() < stacks);
                continue;
            }
            let field = fields
                .iter()
                .find(|field| field["key"] == **key)
                .unwrap_or_else(|| panic!("no field {key}"));
            match field["format"].as_str().unwrap() {
                "unique-string" => drop(self.string(value).len()),
                "string" => assert!(value.is_string(), "{key}: {value}"),
                "integer" | "decimal" | "bytes" | "percentage" | "duration" => {
                    // The process that started another one may not be known.
                    assert!(value.is_number() || value.is_null(), "{key}: {value}");
                }
                other => panic!("format {other}"),
            }
        }
    }

    /// The viewer groups threads by process id, and takes one as the main thread.
    fn check_processes(&self) {
        let mut mains: BTreeMap<&str, u32> = BTreeMap::new();
        for thread in self.threads() {
            *mains.entry(thread["pid"].as_str().unwrap()).or_default() +=
                u32::from(thread["isMainThread"] == true);
        }
        assert!(mains.values().all(|count| *count == 1), "{mains:?}");
    }

    fn check_counters(&self) {
        for counter in list(&self.json["counters"]) {
            table(&counter["samples"], &["timeDeltas", "count"]);
            let thread = &self.threads()[index(&counter["mainThreadIndex"]).unwrap()];
            assert_eq!(thread["pid"], counter["pid"]);
        }
    }

    /// Times and values of a counter, as the viewer adds them up: it takes the first row for zero.
    pub(crate) fn counter(&self, name: &str) -> Vec<(f64, f64)> {
        let counter =
            list(&self.json["counters"]).iter().find(|counter| counter["display"]["label"] == name);
        let samples = &counter.unwrap_or_else(|| panic!("no counter {name}"))["samples"];
        let (mut time, mut value) = (0.0, 0.0);
        let rows = list(&samples["timeDeltas"]).iter().zip(list(&samples["count"])).enumerate();
        rows.map(|(row, (delta, growth))| {
            time += delta.as_f64().unwrap();
            value += if row == 0 { 0.0 } else { growth.as_f64().unwrap() };
            (time, value)
        })
        .collect()
    }

    /// A thread's samples.
    pub(crate) fn samples(&self, thread: &Value) -> Vec<Sample> {
        let samples = &thread["samples"];
        let mut time = 0.0;
        (0..list(&samples["stack"]).len())
            .map(|row| {
                time += samples["timeDeltas"][row].as_f64().unwrap();
                Sample {
                    time,
                    stack: self.stack(&samples["stack"][row]),
                    weight: samples["weight"][row].as_u64().unwrap(),
                    cpu_ns: samples["threadCPUDelta"][row].as_u64().unwrap(),
                }
            })
            .collect()
    }

    /// A stack, innermost frame first.
    pub(crate) fn stack(&self, row: &Value) -> Vec<Frame> {
        let stacks = &self.shared()["stackTable"];
        let mut frames = Vec::new();
        let mut next = index(row);
        while let Some(row) = next {
            frames.push(self.frame(index(&stacks["frame"][row]).unwrap()));
            next = index(&stacks["prefix"][row]);
        }
        frames
    }

    fn frame(&self, row: usize) -> Frame {
        let (frames, functions) = (&self.shared()["frameTable"], &self.shared()["funcTable"]);
        let function = index(&frames["func"][row]).unwrap();
        let lib = index(&functions["resource"][function])
            .and_then(|row| index(&self.shared()["resourceTable"]["lib"][row]));
        let source = index(&functions["source"][function]);
        let file =
            source.map(|row| self.string(&self.shared()["sources"]["filename"][row]).to_owned());
        Frame {
            function: self.string(&functions["name"][function]).to_owned(),
            category:
                self.json["meta"]["categories"][index(&frames["category"][row]).unwrap()]["name"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
            lib: lib.map(|row| self.json["libs"][row]["name"].as_str().unwrap().to_owned()),
            place: file.map(|file| (file, frames["line"][row].as_u64().unwrap_or(0))),
            inline_depth: frames["inlineDepth"][row].as_u64().unwrap(),
        }
    }

    /// The markers of a thread: name, category, start and end in milliseconds, data.
    pub(crate) fn thread_markers<'a>(&'a self, thread: &'a Value) -> Vec<Marker<'a>> {
        let markers = &thread["markers"];
        (0..list(&markers["data"]).len())
            .map(|row| Marker {
                name: self.string(&markers["name"][row]),
                category: self.json["meta"]["categories"]
                    [index(&markers["category"][row]).unwrap()]["name"]
                    .as_str()
                    .unwrap(),
                start: markers["startTime"][row].as_f64().unwrap(),
                end: markers["endTime"][row].as_f64(),
                data: &markers["data"][row],
            })
            .collect()
    }

    /// The schema of a marker's data.
    pub(crate) fn schema(&self, name: &str) -> &Value {
        let schemas = list(&self.json["meta"]["markerSchema"]);
        schemas
            .iter()
            .find(|schema| schema["name"] == name)
            .unwrap_or_else(|| panic!("no schema {name}"))
    }

    /// Name and data of the markers of a type, of all threads.
    pub(crate) fn markers(&self, kind: &str) -> Vec<(&str, &Value)> {
        let mut found = Vec::new();
        for markers in self.threads().iter().map(|thread| &thread["markers"]) {
            for (row, data) in
                list(&markers["data"]).iter().enumerate().filter(|(_, data)| data["type"] == kind)
            {
                found.push((self.string(&markers["name"][row]), data));
            }
        }
        found
    }
}

fn unique(list: &[Value], key: &str) {
    let names: std::collections::BTreeSet<&str> =
        list.iter().map(|row| row[key].as_str().unwrap()).collect();
    assert_eq!(names.len(), list.len(), "{names:?}");
}
