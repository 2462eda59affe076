//! Where symbol files are looked for: the syntax of `_NT_SYMBOL_PATH`.

use std::path::PathBuf;

/// One source of a [`SymbolPath`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SymbolSource {
    /// A directory: files lie in it as they are, or as in a symbol store.
    Directory(PathBuf),
    /// A symbol server.
    Server {
        /// `http://` or `https://`, without a slash at its end.
        url: String,
        /// The store that keeps what it sends; `None` for the default one.
        cache: Option<PathBuf>,
    },
}

/// Places in the order in which they are looked at, local ones first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SymbolPath {
    sources: Vec<SymbolSource>,
}

impl SymbolPath {
    /// Reads the syntax of `_NT_SYMBOL_PATH`: sources between semicolons, which are directories,
    /// `srv*STORE*...*STORE_OR_URL` (also `symsrv*symsrv.dll*...`), or `cache*STORE`, which keeps
    /// what servers behind it send. Nothing in it is an error: what is not understood is a
    /// directory that is not there.
    ///
    /// ```
    /// use syscollect_symbolize::windows::{SymbolSource, SymbolPath};
    /// let path = SymbolPath::parse("/a;srv*/store*https://example.org/symbols/;/b");
    /// let server = SymbolSource::Server { url: "https://example.org/symbols".into(), cache: Some("/store".into()) };
    /// fn directory(path: &str) -> SymbolSource {
    ///     SymbolSource::Directory(path.into())
    /// }
    /// assert_eq!(path.sources(), [directory("/a"), directory("/store"), directory("/b"), server]);
    /// ```
    pub fn parse(text: &str) -> Self {
        let mut path = Self::default();
        let mut cache = None;
        for element in text.split(';').map(str::trim).filter(|element| !element.is_empty()) {
            let parts: Vec<&str> = element.split('*').map(str::trim).collect();
            match parts[0].to_ascii_lowercase().as_str() {
                "cache" if parts.len() > 1 => {
                    cache = parts[1..].iter().find(|part| !part.is_empty()).map(PathBuf::from);
                    path.extend(cache.clone().map(SymbolSource::Directory));
                }
                "srv" if parts.len() > 1 => path.add_chain(&parts[1..], cache.as_ref()),
                "symsrv" if parts.len() > 2 => path.add_chain(&parts[2..], cache.as_ref()),
                _ => path.add_chain(&[element], cache.as_ref()),
            }
        }
        path
    }

    /// The sources: directories, then servers.
    pub fn sources(&self) -> &[SymbolSource] {
        &self.sources
    }

    /// Adds a source behind those of its kind; twice the same is once.
    pub fn add(&mut self, source: SymbolSource) {
        if self.sources.contains(&source) {
            return;
        }
        let local = self
            .sources
            .iter()
            .take_while(|source| matches!(source, SymbolSource::Directory(_)))
            .count();
        match source {
            SymbolSource::Directory(_) => self.sources.insert(local, source),
            SymbolSource::Server { .. } => self.sources.push(source),
        }
    }

    /// The same without its servers, but with their caches.
    #[must_use]
    pub fn without_servers(mut self) -> Self {
        self.sources.retain(|source| matches!(source, SymbolSource::Directory(_)));
        self
    }

    /// Whether there are servers among the sources.
    pub fn has_servers(&self) -> bool {
        self.sources.iter().any(|source| matches!(source, SymbolSource::Server { .. }))
    }

    /// Stores that keep copies of what the next one has, up to the last one.
    fn add_chain(&mut self, stores: &[&str], default_cache: Option<&PathBuf>) {
        let mut cache = default_cache.cloned();
        for store in stores.iter().filter(|store| !store.is_empty()) {
            if let Some(url) = server_url(store) {
                self.add(SymbolSource::Server { url, cache: cache.clone() });
            } else {
                cache = Some(PathBuf::from(store));
                self.add(SymbolSource::Directory(PathBuf::from(store)));
            }
        }
    }
}

impl Extend<SymbolSource> for SymbolPath {
    fn extend<T: IntoIterator<Item = SymbolSource>>(&mut self, sources: T) {
        sources.into_iter().for_each(|source| self.add(source));
    }
}

/// The address of a server as in [`SymbolSource::Server`]; `None` if `text` is none.
pub fn server_url(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let host = lower.strip_prefix("https://").or_else(|| lower.strip_prefix("http://"))?;
    let plain = !host.is_empty()
        && text.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '<' | '>'));
    plain.then(|| text.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(path: &str) -> SymbolSource {
        SymbolSource::Directory(path.into())
    }

    fn server(url: &str, cache: Option<&str>) -> SymbolSource {
        SymbolSource::Server { url: url.into(), cache: cache.map(PathBuf::from) }
    }

    #[test]
    fn servers_come_last_and_keep_the_nearest_store_as_their_cache() {
        let path = SymbolPath::parse(
            r"srv*C:\near*\\share\far*https://example.org/s; D:\pdbs ;symsrv*symsrv.dll*http://x",
        );
        let expected = [
            directory(r"C:\near"),
            directory(r"\\share\far"),
            directory(r"D:\pdbs"),
            server("https://example.org/s", Some(r"\\share\far")),
            server("http://x", None),
        ];
        assert_eq!(path.sources(), expected);
    }

    #[test]
    fn a_cache_is_for_all_that_follows_and_an_empty_store_is_the_default_one() {
        let path =
            SymbolPath::parse("SRV**https://before;cache*/c;srv*https://after;;https://bare/");
        let expected = [
            directory("/c"),
            server("https://before", None),
            server("https://after", Some("/c")),
            server("https://bare", Some("/c")),
        ];
        assert_eq!(path.sources(), expected);
        assert!(path.has_servers());
        assert_eq!(path.without_servers().sources(), [directory("/c")]);
    }

    #[test]
    fn only_http_and_https_are_servers() {
        for odd in ["ftp://x", "file:///etc", "https://", "http://a b", "-o", "https://x\n--output"]
        {
            assert_eq!(server_url(odd), None, "{odd:?}");
        }
        assert_eq!(server_url("HTTPS://Example.org/a//").as_deref(), Some("HTTPS://Example.org/a"));
    }
}
