use std::io::Write;

use super::*;

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn every_default_is_taken_by_its_own_key() {
    for key in KEYS {
        assert_eq!((key.set)(&mut Config::default(), key.default), Ok(()), "{}", key.name);
    }
}

#[test]
fn a_flag_wins_over_the_environment_over_the_file_over_the_default() {
    let file =
        file("[http]\nlisten = \"127.0.0.1:1\"\n[grpc]\nlisten = \"127.0.0.1:1\"\n[peer]\nlisten = \"127.0.0.1:1\"");
    let environment = environment(&[("ORBIT_HTTP_LISTEN", "127.0.0.1:2"), ("ORBIT_GRPC_LISTEN", "127.0.0.1:2")]);
    let flags = Flags::default().with("http.listen", "127.0.0.1:3");
    let config = Config::load(Some(file.path()), &environment, &flags).unwrap();
    let ports = [config.http_listen, config.grpc_listen, config.peer_listen, config.health_listen].map(|a| a.port());
    assert_eq!(ports, [3, 2, 1, 7403]);
}

#[test]
fn every_key_can_be_set_in_all_three_places() {
    for key in KEYS {
        let value = match (key.kind, key.default) {
            (Kind::Text, text) => format!("{text:?}"),
            (Kind::Number, number) => number.to_owned(),
            (Kind::List, _) if key.name == "cluster.seeds" => "[\"a.example:1\"]".to_owned(),
            (Kind::List, _) => "[\"a.example\"]".to_owned(),
            (Kind::Switch, _) => "true".to_owned(),
        };
        let file = file(&format!("{} = {value}", key.name));
        Config::load(Some(file.path()), &BTreeMap::new(), &Flags::default()).unwrap_or_else(|e| panic!("{e}"));
        let bad = environment(&[(&key.variable(), "\u{1} no value of any key ://")]);
        // Any text is a directory.
        if !["data_dir", "http_task.secrets_dir"].contains(&key.name) {
            let error = Config::load(None, &bad, &Flags::default()).unwrap_err().to_string();
            assert!(error.starts_with(&key.variable()), "{error}");
        }
        let command = <Flags as clap::Args>::augment_args(clap::Command::new("orbit"));
        let flag = format!("--{}", key.flag());
        let text = match key.kind {
            Kind::List if key.name == "cluster.seeds" => "a.example:1",
            Kind::List => "a",
            _ => key.default,
        };
        let matches = command.try_get_matches_from(["orbit", &flag, text]);
        let flags = <Flags as clap::FromArgMatches>::from_arg_matches(&matches.unwrap()).unwrap();
        assert!(flags.get(key).is_some());
    }
}

#[test]
fn an_unknown_key_is_refused_with_the_one_that_was_meant() {
    let cases = [
        ("[http]\nlisen = \"127.0.0.1:1\"", "there is no key `http.lisen`; did you mean `http.listen`?"),
        ("[cluster]\nshard = 3", "there is no key `cluster.shard`; did you mean `cluster.shards`?"),
        ("[htp]\nlisten = \"x\"", "there is no key `htp`"),
        ("data-dir = \"x\"", "there is no key `data-dir`; did you mean `data_dir`?"),
        ("colour = 3", "there is no key `colour`"),
    ];
    for (text, expected) in cases {
        let error = Config::load(Some(file(text).path()), &BTreeMap::new(), &Flags::default()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_value_of_another_type_or_range_is_refused_with_its_place() {
    let cases = [
        ("[cluster]\nshards = \"16\"", "cluster.shards: a whole number is expected"),
        ("[cluster]\nshards = 0", "cluster.shards: \"0\" is no whole number from 1 to 256"),
        ("[http]\nlisten = 7400", "http.listen: a string is expected"),
        ("[http_task]\nenabled = \"yes\"", "http_task.enabled: true or false is expected"),
        ("[http_task]\nallow = [\"http://a\"]", "http_task.allow: \"http://a\" is no host, address or network"),
        ("[http]\nnames = [1]", "http.names: a list of strings is expected"),
        ("http = 3", "there is no key `http`"),
        ("[limits]\nsession_timeout_ms = 6000", "workers would be lost between two heartbeats"),
        ("[limits]\ndisk_full_percent = 0", "limits.disk_full_percent: \"0\" is no whole number from 1 to 100"),
        ("[limits]\ndisk_warn_percent = 91", "limits.disk_full_percent 90"),
        ("[limits]\ndisk_full_percent = 96", "each must be at least the one before it"),
        ("a = ", "is no TOML: line 1"),
    ];
    for (text, expected) in cases {
        let error = Config::load(Some(file(text).path()), &BTreeMap::new(), &Flags::default()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn only_slips_are_doubtful_in_the_environment() {
    let variables = environment(&[("ORBIT_HTTP_LISTN", "x"), ("ORBIT_TOKEN", "x"), ("ORBIT_PORT_7400_TCP", "x")]);
    let found = doubtful(&variables);
    assert_eq!(found, [("ORBIT_HTTP_LISTN".to_owned(), "ORBIT_HTTP_LISTEN".to_owned())]);
}
