// The page wants one JSON file, one WebAssembly module and four tiles.
const [stations, { instance }] = await Promise.all([
  fetch("stations.json").then((answer) => answer.json()),
  WebAssembly.instantiateStreaming(fetch("range.wasm")),
]);

const chart = document.getElementById("chart");
for (const row of [0, 1]) {
  for (const column of [0, 1]) {
    const tile = new Image();
    tile.src = `tiles/${row}-${column}.png`;
    tile.alt = "";
    chart.append(tile);
  }
}

const rows = document.querySelector("#stations tbody");
for (const { name, latitude, longitude, high_cm, low_cm } of stations.stations) {
  const row = rows.insertRow();
  const range = instance.exports.range(high_cm, low_cm);
  for (const text of [name, latitude.toFixed(2), longitude.toFixed(2), `${range} cm`]) {
    row.insertCell().textContent = text;
  }
}
