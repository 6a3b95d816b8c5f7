//! The page in a real browser.

use std::path::Path;

use bytepath_report::Record;
use serde_json::{Value, json};

use super::browser::Browser;
use super::report;
use super::sample::{self, kept};

/// A page of these records, opened with all its charts drawn; none where there is no browser.
fn opened(folder: &Path, records: &[Record]) -> Option<Browser> {
    let mut browser = visited(folder, records)?;
    browser.draw_all();
    Some(browser)
}

/// A page of these records, opened, with the charts that are in sight.
fn visited(folder: &Path, records: &[Record]) -> Option<Browser> {
    let mut browser = Browser::start()?;
    let names: Vec<_> = (0..records.len()).map(|number| format!("{number}.json")).collect();
    for (name, record) in names.iter().zip(records) {
        kept(folder, name, record);
    }
    let words: Vec<&str> = names.iter().map(String::as_str).chain(["-o", "page.html"]).collect();
    report(folder, &words).well();
    browser.visit(&folder.join("page.html"));
    Some(browser)
}

#[test]
fn figures_in_the_page_are_the_records_and_nothing_is_asked_of_a_network() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = sample::record();
    let Some(mut browser) = opened(folder.path(), std::slice::from_ref(&record)) else { return };
    let found = browser.eval(
        "[...document.querySelectorAll('#arms-1 tbody tr')].map((row) => \
         [row.querySelector('th').textContent, row.dataset.median === undefined ? null : Number(row.dataset.median)])",
    );
    let name = |arm: &bytepath_report::Arm| match arm.reference {
        true => format!("{} *", arm.name),
        false => arm.name.clone(),
    };
    let wanted: Vec<Value> = record.arms.iter().map(|arm| json!([name(arm), arm.median])).collect();
    assert_eq!(found, Value::from(wanted));
    let drawn = browser.eval(
        "[...document.querySelectorAll('[data-chart=arms] [role=listitem]')].map((row) => row.getAttribute('aria-label'))",
    );
    let drawn: Vec<&str> =
        drawn.as_array().expect("rows").iter().filter_map(Value::as_str).collect();
    assert_eq!(drawn.len(), 4, "each arm that ran has a row: {drawn:?}");
    for (row, arm) in drawn.iter().zip(&record.arms) {
        let exactly = format!("exactly {}", arm.median.expect("it ran"));
        assert!(row.starts_with(&arm.name) && row.ends_with(&exactly), "{row}");
    }
    for chart in ["arms", "samples", "latency", "costs", "classes"] {
        let marks = format!(
            "document.querySelectorAll('[data-chart={chart}] svg :is(circle, rect, path, text)').length"
        );
        assert!(browser.eval(&marks).as_u64() > Some(4), "{chart} is drawn");
    }
    // The place of a mark is that of its figure: the axis tells both.
    let place = browser.eval(
        "(() => { const svg = document.querySelector('[data-chart=arms] svg'); const x = svg.scale('x'); \
         const dots = [...svg.querySelectorAll('g[aria-label=dot] circle')].map((dot) => x.invert(Number(dot.getAttribute('cx')))); \
         return dots.sort((a, b) => a - b); })()",
    );
    let place: Vec<f64> =
        place.as_array().expect("dots").iter().filter_map(Value::as_f64).collect();
    let wanted = [0.25, 3.5, 12.25, 61.0625];
    assert_eq!(place.len(), wanted.len(), "{place:?}");
    for (found, wanted) in place.iter().zip(wanted) {
        assert!((found / wanted - 1.0).abs() < 1e-6, "{place:?}");
    }
    let published =
        "document.querySelectorAll('[data-chart=arms] svg g[aria-label=dot] path').length";
    assert_eq!(browser.eval(published), 2, "published figures stand beside");
    let hollow = "[...document.querySelectorAll('[data-chart=arms] svg circle')].filter((dot) => dot.closest('g').getAttribute('fill') === 'var(--back)').length";
    assert_eq!(browser.eval(hollow), 1, "what was moved and not looked at is hollow");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_hostile_record_is_text_in_the_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut browser) = opened(folder.path(), &[sample::hostile(), sample::record()]) else {
        return;
    };
    browser.eval("document.querySelectorAll('[data-tools=samples] select').forEach((choice) => { choice.value = 'all'; choice.dispatchEvent(new Event('change')); }), true");
    assert_eq!(browser.eval("typeof window.hacked"), "undefined");
    assert_eq!(browser.eval("document.querySelectorAll('img, iframe, object, embed, link, form, base, [onerror], [onload]').length"), 0);
    assert_eq!(
        browser.eval("document.scripts.length"),
        4,
        "the data, two libraries and the page's own"
    );
    assert_eq!(browser.eval("document.querySelector('#run-1 h1').textContent.includes('<script>window.hacked=1</script>')"), true);
    assert_eq!(
        browser.eval("document.querySelector('main').textContent.includes('{{ 7*7 }}{% raw %}')"),
        true,
        "no template in a template"
    );
    assert_eq!(
        browser.eval("/[\\u202e\\u0000\\u001b]/.test(document.querySelector('main').textContent)"),
        false
    );
    // Even a script that got into the page would not run.
    browser.eval("(() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 5'; document.body.append(s); })(), true");
    assert_eq!(browser.eval("typeof window.hacked"), "undefined");
    let complaints = browser.complaints();
    assert!(
        complaints.iter().all(|text| text.contains("Content Security Policy")),
        "{complaints:?}"
    );
    assert_eq!(complaints.len(), 1, "the policy speaks of that script alone: {complaints:?}");
}

#[test]
fn tables_are_sorted_and_arms_hidden_and_both_show_in_the_charts() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut browser) = opened(folder.path(), &[sample::record()]) else { return };
    let drawn = "[...document.querySelectorAll('[data-chart=arms] [role=listitem]')].map((row) => row.getAttribute('aria-label').split(',')[0])";
    let heading = "[...document.querySelectorAll('#arms-1 thead button')].find((button) => button.textContent.startsWith('measured')).click(), true";
    browser.eval(heading);
    let fastest_first =
        json!(["vmsplice-splice-huge-spin", "vmsplice-read", "write-read", "write-read-4k"]);
    assert_eq!(browser.eval(drawn), fastest_first);
    let last = "document.querySelector('#arms-1 tbody tr:last-child th').textContent";
    assert_eq!(browser.eval(last), "uring-read", "what has no figure comes last");
    browser.eval(heading);
    assert_eq!(browser.eval(drawn)[0], "write-read-4k");
    browser.eval("document.querySelector('#arms-1 tbody tr input').click(), true");
    assert_eq!(browser.eval(drawn).as_array().map(Vec::len), Some(3), "one is hidden");
    let search = "(() => { const find = document.querySelector('[data-tools=arms] input'); find.value = 'vmsplice'; find.dispatchEvent(new Event('input')); return true; })()";
    browser.eval(search);
    assert_eq!(
        browser.eval(drawn).as_array().map(Vec::len),
        Some(2),
        "two have that in their names"
    );
    let ratios = "[...document.querySelectorAll('[data-tools=arms] button')][0].click(), document.querySelector('[data-chart=arms] svg').getAttribute('aria-label')";
    assert_eq!(browser.eval(ratios), "Medians and intervals, as ratios to the reference");
    let zoom = "(() => { const at = () => document.querySelector('[data-chart=arms] svg').scale('x').domain; const before = at(); document.querySelector('[aria-label=\"Zoom in\"]').click(); const after = at(); return before[0] === 0 && after[0] === 0 && after[1] < before[1]; })()";
    assert_eq!(browser.eval(zoom), true);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn ratios_are_sorted_by_what_they_are_from_tens_of_thousands_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut record = sample::record();
    for (arm, ratio) in record.arms.iter_mut().zip([3.93, 39_300.0, 393.0, 3928.0]) {
        arm.ratio = Some(ratio);
    }
    // The reference has none to itself in the table.
    record.arms[0].reference = false;
    record.arms[4].reference = true;
    let Some(mut browser) = opened(folder.path(), &[record]) else { return };
    browser.eval("[...document.querySelectorAll('#arms-1 thead button')].find((button) => button.textContent.startsWith('ratio to')).click(), true");
    let cells = browser.eval(
        "(() => { const at = [...document.querySelectorAll('#arms-1 thead th')].findIndex((head) => head.textContent.startsWith('ratio to')); \
         return [...document.querySelectorAll('#arms-1 tbody tr')].map((row) => row.cells[at].textContent).slice(0, 4); })()",
    );
    assert_eq!(cells, json!(["39.3kx", "3928x", "393x", "3.93x"]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Makes the window this wide, and waits until the charts are as wide as their places are then.
fn widen(browser: &mut Browser, width: u32) {
    let size = json!({"width": width, "height": 700, "deviceScaleFactor": 1, "mobile": false});
    browser.call("Emulation.setDeviceMetricsOverride", size);
    browser.eval(
        "(async () => { const box = document.querySelector('[data-chart=arms]'); \
         const drawn = () => Number(box.querySelector('svg').getAttribute('width')); \
         while (drawn() !== Math.floor(box.getBoundingClientRect().width)) await new Promise(requestAnimationFrame); \
         return true; })()",
    );
}

/// Shows only those arms whose names hold this.
fn filter(browser: &mut Browser, text: &str) {
    browser.eval(&format!(
        "(() => {{ const find = document.querySelector('[data-tools=arms] input'); \
         find.value = '{text}'; find.dispatchEvent(new Event('input')); return true; }})()"
    ));
}

/// The arms of a chart from above to below, each with how many dots are in its row.
fn rows(browser: &mut Browser, chart: &str) -> Value {
    browser.eval(&format!(
        "(() => {{ const svg = document.querySelector('[data-chart={chart}] svg'); const y = svg.scale('y'); \
         const above = svg.getBoundingClientRect().top; \
         const dots = [...svg.querySelectorAll('g[aria-label=dot] :is(circle, path)')].map((dot) => dot.getBoundingClientRect()); \
         const within = (row) => dots.filter((dot) => dot.top - above >= y.apply(row) && dot.bottom - above <= y.apply(row) + y.bandwidth); \
         return y.domain.map((row) => [row, within(row).length]); }})()"
    ))
}

#[test]
fn one_arm_and_two_have_rows_as_many_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut record = sample::record();
    record.arms.truncate(3);
    // So far apart that dots tell them.
    for (arm, cost) in record.arms.iter_mut().zip([0.01, 0.1, 10.0]) {
        arm.costs.as_mut().expect("they have").cpu_user_s_per_gib = Some(cost);
    }
    let Some(mut browser) = opened(folder.path(), &[record]) else { return };
    for width in [1280, 400] {
        for (text, arms) in [("", &[0, 1, 2][..]), ("vmsplice", &[1, 2]), ("write", &[0])] {
            widen(&mut browser, width);
            filter(&mut browser, text);
            let each = |dots: u32| arms.iter().map(|arm| json!([arm, dots])).collect::<Value>();
            assert_eq!(rows(&mut browser, "samples"), each(3), "{width} {text:?}");
            if arms.len() > 1 {
                assert_eq!(rows(&mut browser, "costs"), each(1), "{width} {text:?}");
            }
        }
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn names_and_figures_of_axes_are_whole_at_every_width() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut record = sample::record();
    record.arms.truncate(2);
    record.arms[0].name = "tar".to_owned();
    record.arms[1].name = "M".repeat(60);
    for arm in &mut record.arms {
        let costs = arm.costs.as_mut().expect("they have");
        costs.cpu_user_s_per_gib = Some(0.002);
        costs.cpu_system_s_per_gib = Some(0.002);
    }
    let Some(mut browser) = opened(folder.path(), &[record]) else { return };
    for width in [485, 900, 1600] {
        widen(&mut browser, width);
        // All are drawn anew.
        filter(&mut browser, "");
        for chart in ["arms", "samples", "costs"] {
            let cut = browser.eval(&format!(
                "(() => {{ const svg = document.querySelector('[data-chart={chart}] svg'); \
                 const place = (node) => node.getBoundingClientRect(); \
                 const of = (which) => [...svg.querySelectorAll(which)]; \
                 const [from, to] = [place(svg).left, place(svg).right]; \
                 const texts = of('text').filter((text) => text.textContent); \
                 const cut = (text) => place(text).left < from || place(text).right > to; \
                 const ticks = of('g[aria-label=\"x-axis tick label\"] text'); \
                 const next = (at) => at ? place(ticks[at - 1]).right + 4 : from; \
                 const over = ticks.filter((tick, at) => place(tick).left < next(at)); \
                 return ticks.length < 2 ? 'no ticks' \
                 : [...texts.filter(cut), ...over].map((text) => text.textContent); }})()"
            ));
            assert_eq!(cut, json!([]), "{chart} at {width}");
        }
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn every_line_of_a_logarithmic_axis_has_its_figure() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut record = sample::record();
    // From thousandths on to thousands.
    for (arm, cost) in record.arms.iter_mut().zip([0.002, 0.1, 10.0, 3000.0]) {
        arm.costs.as_mut().expect("they have").cpu_user_s_per_gib = Some(cost);
    }
    let Some(mut browser) = opened(folder.path(), &[record]) else { return };
    for width in [485, 1600] {
        widen(&mut browser, width);
        filter(&mut browser, "");
        for (chart, axis) in
            [("arms", "x"), ("samples", "x"), ("latency", "x"), ("latency", "y"), ("costs", "x")]
        {
            let found = browser.eval(&format!(
                "(() => {{ const svg = document.querySelector('[data-chart={chart}] svg'); \
                 const of = (which) => [...svg.querySelectorAll(`g[aria-label=\"${{which}}\"] > *`)]; \
                 const texts = of('{axis}-axis tick label').map((text) => text.textContent); \
                 const label = of('{axis}-axis label').map((text) => text.textContent).join(); \
                 return [svg.scale('{axis}').type, of('{axis}-grid').length === texts.length && texts.length > 1, \
                 texts.includes(''), label.includes('logarithmic') || label.includes('percentile')]; }})()"
            ));
            assert_eq!(found, json!(["log", true, false, true]), "{chart}, {axis} at {width}");
        }
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// In a script: the contrast of two colours as WCAG 2 has it, and the colour behind all.
const CONTRAST: &str = "const pixel = document.createElement('canvas').getContext('2d', { willReadFrequently: true }); \
    const light = (colour) => { pixel.fillStyle = colour; pixel.fillRect(0, 0, 1, 1); \
    const [r, g, b] = [...pixel.getImageData(0, 0, 1, 1).data].map((part) => part / 255) \
    .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; }; \
    const contrast = (one, other) => { const [low, high] = [light(one), light(other)].sort((a, b) => a - b); return (high + 0.05) / (low + 0.05); }; \
    const back = getComputedStyle(document.body).backgroundColor;";

/// A run of which an arm has so many classes of cost, those that are not the work's among them.
fn explained_by(classes: usize) -> Record {
    let mut record = sample::record();
    let explained = record.arms[1].explained.as_mut().expect("it is explained");
    let not_the_works = ["idle", "other programs", "threads of the kernel", "unclaimed"];
    let names = not_the_works.into_iter().map(str::to_owned);
    let names = names.chain((4..classes).map(|number| format!("class {number}")));
    let share = 1.0 / classes as f64;
    let class = |name| bytepath_report::ClassShare {
        name,
        share,
        ci95: [share / 2.0, share * 2.0],
        published: Some(share),
    };
    explained.classes = names.map(class).collect();
    record
}

#[test]
fn bars_and_calls_stand_out_in_light_and_dark_and_so_does_what_is_written_on_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut browser) = opened(folder.path(), &[explained_by(19)]) else { return };
    // So wide that there is room for figures on bars.
    widen(&mut browser, 1600);
    for scheme in ["light", "dark"] {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.call("Emulation.setEmulatedMedia", features);
        let found = browser.eval(&format!(
            "(() => {{ {CONTRAST} const fill = (node) => getComputedStyle(node).fill; \
             const whole = (node) => getComputedStyle(node).fillOpacity === '1' && node.closest('g').getAttribute('fill-opacity') === null; \
             const box = document.querySelector('[data-chart=classes]'); \
             const bars = [...box.querySelectorAll('g[aria-label=bar] rect')]; \
             const texts = [...box.querySelectorAll('g[aria-label=text] text')].filter((text) => text.textContent.includes('%')); \
             const keys = [...box.querySelectorAll('.swatches i')]; \
             const calls = [...document.querySelectorAll('.flame g')]; \
             const weak = (node) => contrast(fill(node), back) < 3 || !whole(node); \
             const faint = (text) => bars.some((bar) => contrast(fill(text), fill(bar)) < 4.5); \
             return [bars.length, keys.length, new Set(bars.map(fill)).size, texts.length > 0, calls.length > 4, \
             bars.filter(weak).map(fill), texts.filter(faint).map(fill), \
             calls.map((call) => call.querySelector('rect')).filter(weak).map(fill), \
             calls.filter((call) => call.querySelector('text') && contrast(fill(call.querySelector('rect')), fill(call.querySelector('text'))) < 4.5).length]; }})()"
        ));
        assert_eq!(found, json!([38, 19, 19, true, true, [], [], [], 0]), "{scheme}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn classes_beyond_the_colours_share_one_with_each_other_and_with_no_class_that_has_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut browser) = opened(folder.path(), &[explained_by(24)]) else { return };
    let found = browser.eval(
        "(() => { const box = document.querySelector('[data-chart=classes]'); \
         const bars = [...box.querySelectorAll('g[aria-label=bar] rect')]; \
         const keys = [...box.querySelectorAll('.swatches li')].map((key) => key.textContent); \
         return [bars.length, new Set(bars.map((bar) => getComputedStyle(bar).fill)).size, \
         keys.length, keys.filter((key) => key.includes('others'))]; })()",
    );
    assert_eq!(found, json!([48, 20, 20, ["5 others"]]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn nothing_is_wider_than_a_narrow_page_and_no_word_is_broken_beside_a_choice() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut record = explained_by(8);
    for arm in &mut record.arms {
        arm.name = format!("{} | sort --random-sort | wc --lines # and on and on", arm.name);
    }
    let Some(mut browser) = opened(folder.path(), &[record]) else { return };
    widen(&mut browser, 320);
    let found = browser.eval(
        "(() => { const page = document.documentElement; \
         const height = (label) => label.getBoundingClientRect().height; \
         const svg = document.querySelector('[data-chart=arms] svg'); \
         const end = svg.getBoundingClientRect().right - 24; \
         const names = [...svg.querySelectorAll('g[aria-label=text] text')]; \
         return [page.scrollWidth <= page.clientWidth, \
         [...document.querySelectorAll('.toolbar label')].filter((label) => height(label) > 36).map((label) => label.textContent), \
         names.length, names.filter((name) => name.getBoundingClientRect().right > end).length]; })()",
    );
    assert_eq!(found, json!([true, [], 4, 0]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn lines_of_latencies_are_told_apart_by_dashes_and_stand_out_in_light_and_dark() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut record = sample::record();
    let first = record.arms[0].clone();
    record.arms = (0..20)
        .map(|number| bytepath_report::Arm {
            name: format!("arm {number}"),
            reference: number == 0,
            ..first.clone()
        })
        .collect();
    let Some(mut browser) = opened(folder.path(), &[record]) else { return };
    for scheme in ["light", "dark"] {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.call("Emulation.setEmulatedMedia", features);
        // Each line's colour and dashes, beside those of its key, and its contrast as WCAG 2 has it.
        let found = browser.eval(&format!(
            "(() => {{ {CONTRAST} const of = (node) => {{ const style = getComputedStyle(node); return `${{style.stroke}} ${{style.strokeDasharray}}`; }}; \
             const box = document.querySelector('[data-chart=latency]'); \
             const lines = [...box.querySelectorAll('g[aria-label=line] path')]; \
             const keys = [...box.querySelectorAll('.swatches line')].map(of); \
             return [lines.length, new Set(lines.map(of)).size, keys.length, lines.map(of).filter((line) => !keys.includes(line)), \
             lines.every((line) => contrast(getComputedStyle(line).stroke, back) >= 3)]; }})()",
        ));
        assert_eq!(found, json!([20, 20, 20, [], true]), "{scheme}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_long_name_stays_in_its_column() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut record = sample::record();
    record.arms[1].name = "M".repeat(120);
    let Some(mut browser) = opened(folder.path(), &[record]) else { return };
    let over = "[...document.querySelectorAll('tbody th')].filter((cell) => cell.scrollWidth > cell.clientWidth + 1).length";
    for width in [400, 1280] {
        widen(&mut browser, width);
        assert_eq!(browser.eval(over), 0, "{width}");
    }
}

#[test]
fn intervals_of_ratios_read_as_in_the_tables() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut record = sample::record();
    let ends = [
        [0.9905, 1.0204],
        [0.985, 1.0249],
        [0.98, 1.02],
        [0.9799, 1.0201],
        [0.98 - f64::EPSILON, 0.99996],
        [1.00003, 1.1],
        [0.5, 1.0 - f64::EPSILON],
        [1.0, 1.5],
    ];
    let named = |(number, ends)| {
        let mut arm = record.arms[1].clone();
        (arm.name, arm.ratio, arm.ratio_ci95) = (format!("arm {number}"), Some(1.0), Some(ends));
        arm
    };
    record.arms = ends.into_iter().enumerate().map(named).collect();
    let Some(mut browser) = opened(folder.path(), &[record]) else { return };
    let told = browser.eval(
        "[...document.querySelectorAll('[data-chart=arms] [role=listitem]')].map((row) => row.getAttribute('aria-label').match(/the reference (\\[.*?\\])/)[1])",
    );
    assert_eq!(told, json!(ends.map(bytepath_report::numbers::ratio_interval)));
}

/// What the axis of the arms spans, and how many of its dots are in sight.
fn axis(browser: &mut Browser) -> Value {
    browser.eval(
        "(() => { const svg = document.querySelector('[data-chart=arms] svg'); const x = svg.scale('x'); \
         const dots = [...svg.querySelectorAll('g[aria-label=dot] circle')]; \
         return [x.type, x.domain[0], dots.filter((dot) => Number.isFinite(Number(dot.getAttribute('cx')))).length]; })()",
    )
}

#[test]
fn an_axis_that_is_zoomed_out_is_of_its_own_type_and_never_below_0() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut browser) = opened(folder.path(), &[sample::record()]) else { return };
    let whole = axis(&mut browser);
    assert_eq!(whole[0], "log");
    filter(&mut browser, "vmsplice");
    assert_eq!(axis(&mut browser), json!(["linear", 0, 2]));
    browser.eval("document.querySelector('[aria-label=\"Zoom out\"]').click(), true");
    assert_eq!(axis(&mut browser), json!(["linear", 0, 2]));
    filter(&mut browser, "");
    assert_eq!(axis(&mut browser), whole, "what was chosen for another axis is not for this one");
    browser.eval("document.querySelector('[aria-label=\"Zoom out\"]').click(), true");
    let wider = axis(&mut browser);
    assert!(wider[1].as_f64() < whole[1].as_f64() && wider[2] == whole[2], "{wider}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Presses a button so many times, and says which part of the axis is seen then.
fn zoom(browser: &mut Browser, button: &str, times: u32) -> [f64; 2] {
    browser.eval(&format!(
        "(() => {{ for (let at = 0; at < {times}; at += 1) document.querySelector('[aria-label=\"Zoom {button}\"]').click(); return true; }})()"
    ));
    seen(browser)
}

/// Drags over the axis, from so many pixels behind its beginning to so many.
fn drag(browser: &mut Browser, from: u32, to: u32) -> [f64; 2] {
    browser.eval(&format!(
        "(() => {{ const svg = document.querySelector('[data-chart=arms] svg'); \
         const left = svg.getBoundingClientRect().left + svg.scale('x').range[0] - 8; \
         for (const [kind, at] of [['down', {from}], ['up', {to}]]) \
         svg.dispatchEvent(new PointerEvent(`pointer${{kind}}`, {{ button: 0, pointerType: 'mouse', clientX: left + at }})); \
         return true; }})()"
    ));
    seen(browser)
}

fn seen(browser: &mut Browser) -> [f64; 2] {
    let domain = browser.eval("document.querySelector('[data-chart=arms] svg').scale('x').domain");
    serde_json::from_value(domain).expect("two ends")
}

#[test]
fn a_linear_axis_is_zoomed_by_what_is_drawn_and_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut record = sample::record();
    record.arms.remove(3);
    // It could not run, so nothing of it is drawn.
    record.arms[3].published =
        Some(bytepath_report::Published { value: 1e6, source: "x".to_owned(), note: None });
    let Some(mut browser) = opened(folder.path(), &[record]) else { return };
    let whole = seen(&mut browser);
    assert_eq!(axis(&mut browser), json!(["linear", 0, 3]));
    assert_eq!(drag(&mut browser, 0, 7), whole, "there is nothing below 0");
    let wider = zoom(&mut browser, "out", 1);
    assert!(wider[0] == 0.0 && wider[1] > whole[1], "{wider:?}");
    let back = zoom(&mut browser, "in", 1);
    assert!(back[0] == 0.0 && (back[1] / whole[1] - 1.0).abs() < 1e-9, "{back:?}");
    let far = zoom(&mut browser, "out", 50);
    assert!(far[1] <= 3.0 * whole[1], "{far:?}");
    assert!(zoom(&mut browser, "in", 1)[1] < far[1]);
    let left = drag(&mut browser, 0, 300);
    assert!(left[0] == 0.0 && left[1] > 0.0, "{left:?}");
    // Figures of three digits would be alike on all of it.
    drag(&mut browser, 300, 310);
    let near = drag(&mut browser, 300, 310);
    assert!(near[1] / near[0] < 1.001, "{near:?}");
    let labels = "[...document.querySelectorAll('[data-chart=arms] svg:first-of-type g[aria-label=\"x-axis tick label\"] text')].map((text) => text.textContent)";
    let labels: Vec<String> = serde_json::from_value(browser.eval(labels)).expect("texts");
    let told: Vec<f64> = labels.iter().map(|text| text.parse().expect("a figure")).collect();
    assert!(told.len() >= 2 && told.is_sorted_by(|a, b| a < b), "{labels:?}");
    assert!(told.iter().all(|at| (near[0]..=near[1]).contains(at)), "{labels:?} {near:?}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn buttons_zoom_the_axis_of_every_unit_and_a_mouse_that_of_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut record = sample::record();
    for arm in &mut record.arms[2..] {
        arm.unit = bytepath_report::Unit::OpsPerSecond;
    }
    let Some(mut browser) = opened(folder.path(), &[record]) else { return };
    fn spans(browser: &mut Browser) -> [[f64; 2]; 2] {
        let all = "[...document.querySelectorAll('[data-chart=arms] svg')].map((svg) => svg.scale('x').domain)";
        serde_json::from_value(browser.eval(all)).expect("two axes")
    }
    let whole = spans(&mut browser);
    zoom(&mut browser, "in", 1);
    let near = spans(&mut browser);
    for (near, whole) in near.iter().zip(&whole) {
        assert!(near[1] < whole[1], "{near:?} {whole:?}");
    }
    drag(&mut browser, 10, 60);
    let one = spans(&mut browser);
    assert!(one[0] != near[0] && one[1] == near[1], "{one:?} {near:?}");
    browser.eval("document.querySelector('[data-chart=arms] svg').dispatchEvent(new MouseEvent('dblclick')), true");
    assert_eq!(spans(&mut browser), [whole[0], near[1]], "a double click goes back there");
    browser.eval("[...document.querySelectorAll('[data-tools=arms] button')].find((button) => button.textContent === 'Whole axis').click(), true");
    assert_eq!(spans(&mut browser), whole);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_logarithmic_axis_has_an_end_from_which_it_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut browser) = opened(folder.path(), &[sample::record()]) else { return };
    let whole = seen(&mut browser);
    assert_eq!(axis(&mut browser)[0], "log");
    let decades = |[low, high]: [f64; 2]| (high / low).log10();
    let far = zoom(&mut browser, "out", 50);
    assert!(far[0] > 0.0 && decades(far) <= 5.0 * decades(whole), "{far:?}");
    let near = zoom(&mut browser, "in", 4);
    assert!(decades(near) < decades(whole), "{near:?}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_chart_that_cannot_be_drawn_says_so_and_leaves_out_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut browser) = visited(folder.path(), &[sample::record()]) else { return };
    browser.eval(
        "(() => { const plot = Plot.plot; Plot.plot = (asked) => { \
         if (asked.ariaLabel === 'Every sample of every arm') throw new Error('made to fail'); \
         return plot(asked); }; return true; })()",
    );
    browser.draw_all();
    let drawn = "[...document.querySelectorAll('[data-chart], [data-flame]')].filter((box) => box.querySelector('svg')).length";
    assert_eq!(browser.eval(drawn), 5, "all but that of the samples, and the flame graph");
    let told = "document.querySelector('[data-chart=samples]').textContent";
    assert_eq!(browser.eval(told), "This cannot be drawn: made to fail");
    filter(&mut browser, "write-read");
    assert_eq!(rows(&mut browser, "costs"), json!([[0, 0], [3, 0]]), "there are bars, not dots");
    widen(&mut browser, 500);
    let narrow =
        "Number(document.querySelector('[data-chart=costs] svg').getAttribute('width')) < 500";
    assert_eq!(browser.eval(narrow), true);
    let complaints = browser.complaints();
    assert!(!complaints.is_empty(), "a developer finds it in the console");
    assert!(complaints.iter().all(|told| told.contains("made to fail")), "{complaints:?}");
}

#[test]
fn the_keyboard_reaches_arms_and_calls_and_the_flame_graph_is_searched() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut browser) = opened(folder.path(), &[sample::record()]) else { return };
    browser.eval("document.querySelector('[data-chart=arms] [role=listitem]').focus(), true");
    browser.press("ArrowDown");
    let focused = "document.activeElement.getAttribute('aria-label')";
    let second = browser.eval(focused);
    assert!(
        second.as_str().is_some_and(|label| label.starts_with("vmsplice-read, 12.2 GiB/s")),
        "{second}"
    );
    assert!(
        browser
            .eval("document.getElementById('tip').textContent")
            .as_str()
            .is_some_and(|tip| tip.contains("12.2 GiB/s"))
    );
    // Focusing scrolls, which is told of with the next frame: the tip stays.
    browser.eval("scrollBy(0, 5), new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    assert_eq!(browser.eval("document.getElementById('tip').hidden"), false);

    browser.eval("document.querySelector('.flame [role=treeitem]').focus(), true");
    assert_eq!(browser.eval(focused), "all, 100%, 1000 samples");
    for (key, wanted) in [
        ("ArrowDown", "bytepath, 75.0%, 750 samples"),
        ("ArrowRight", "swapper, 25.0%, 250 samples"),
        ("ArrowLeft", "bytepath, 75.0%, 750 samples"),
        ("ArrowDown", "main, 75.0%, 750 samples"),
        ("ArrowDown", "write, 62.5%, 625 samples"),
        ("Enter", "write, 62.5%, 625 samples"),
    ] {
        browser.press(key);
        assert_eq!(browser.eval(focused), wanted, "after {key}");
    }
    let wide = "(() => { const of = (name) => [...document.querySelectorAll('.flame g')].find((g) => g.getAttribute('aria-label').startsWith(name)).querySelector('rect').getAttribute('width'); return of('write,') === of('all,'); })()";
    assert_eq!(browser.eval(wide), true, "what was zoomed into is as wide as the whole");
    browser.press("Escape");
    let search = "(() => { const find = document.querySelector('.flame input'); find.value = 'MYSTERY'; find.dispatchEvent(new Event('input')); return document.querySelector('.flame [role=status]').textContent; })()";
    assert_eq!(browser.eval(search), "12.5% of the samples are in what was found");
    assert_eq!(browser.eval("document.querySelectorAll('.flame .match').length"), 1);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_page_is_light_and_dark_and_goes_to_paper_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut browser) = visited(folder.path(), &[sample::record()]) else { return };
    let back = "getComputedStyle(document.body).backgroundColor";
    for (scheme, wanted) in [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 28)")] {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.call("Emulation.setEmulatedMedia", features);
        assert_eq!(browser.eval(back), wanted, "{scheme}");
    }
    // Computed styles follow at once; the page hears of the change, and its button says so, with the next frame.
    browser.eval(
        "(async () => { for (;;) { \
         const button = [...document.querySelectorAll('#tools button')].find((button) => button.textContent === 'Light'); \
         if (button) { button.click(); return true; } \
         await new Promise(requestAnimationFrame); } })()",
    );
    assert_eq!(browser.eval(back), "rgb(255, 255, 255)", "the button has the last word");
    let widths = "[...document.querySelectorAll('[data-chart] svg[width]')].map((svg) => Number(svg.getAttribute('width')))";
    browser.eval("dispatchEvent(new Event('beforeprint')), true");
    assert_eq!(
        browser.eval(widths),
        json!([680, 680, 680, 680, 680]),
        "letters have their size on paper, however wide the window is"
    );
    browser.eval("dispatchEvent(new Event('afterprint')), true");
    assert_eq!(browser.eval("document.querySelectorAll('details[open]').length"), 0);
    let fits = "[...document.querySelectorAll('section > [data-chart]')].every((box) => Number(box.querySelector('svg[width]').getAttribute('width')) === Math.floor(box.getBoundingClientRect().width))";
    assert_eq!(browser.eval(fits), true, "and are as wide as their places again");
    let paper = browser.call("Page.printToPDF", json!({"printBackground": false}));
    assert!(paper["data"].as_str().is_some_and(|pdf| pdf.starts_with("JVBERi")), "a PDF in base64");
    browser.call("Emulation.setEmulatedMedia", json!({"media": "print"}));
    assert_eq!(
        browser.eval("getComputedStyle(document.querySelector('.toolbar')).display"),
        "none"
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn twenty_runs_with_hundreds_of_explained_arms_fit_into_three_mebibytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut explained = sample::explained();
    let stack = &explained.stacks[0];
    explained.stacks = (0..400_u64)
        .map(|number| bytepath_report::Stack {
            frames: format!("{};call_{}_[k];leaf_{}_[k]", stack.frames, number % 40, number),
            count: 1 + number,
        })
        .collect();
    let mut run = sample::record();
    let arm = bytepath_report::Arm { explained: Some(explained), ..run.arms[1].clone() };
    run.arms.extend(
        (0..25).map(|number| bytepath_report::Arm { name: format!("arm {number}"), ..arm.clone() }),
    );
    let Some(mut browser) = visited(folder.path(), &vec![run; 20]) else { return };
    let size = std::fs::metadata(folder.path().join("page.html")).expect("a page").len();
    assert!(size <= 3 << 20, "{size} bytes");
    assert_eq!(browser.eval("document.querySelectorAll('article').length"), 20);
    // However much is left out, every tree holds all its samples.
    let whole = "JSON.parse(document.getElementById('data').textContent).runs.every((run) => run.arms.every((arm) => \
        !arm.tree || arm.tree.nodes.every(([, , total], at) => { \
        const below = arm.tree.nodes.filter(([, parent], child) => parent === at && child !== at).map((node) => node[2]).reduce((a, b) => a + b, 0); \
        return below <= total; })))";
    assert_eq!(browser.eval(whole), true);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
